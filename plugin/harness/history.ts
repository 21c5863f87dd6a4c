/** What a harness has told lately, for whoever asks later: a page that is opened, a list in the terminal. */
import { timestamp } from '../guard/clock.ts'
import { generationKey } from '../audit/creators.ts'
import type { HarnessEvents, Progress, Waits } from '../report/events.ts'
import {
  type AuditReport,
  isSuccess,
  type ProviderReport,
  type ReloadReport,
  type ReportError,
  type WhyReport
} from '../report/report.ts'

/** How many reports of reloads, and how many verdicts, are kept. */
export const KEPT = 500
/** How many errors and searches are kept. */
const KEPT_FEW = 20

/** An error, and when it was told as `Date.now()` counts. */
export interface TimedError extends ReportError {
  time: number
}

/** The last reports of one dev server, oldest first. */
export class History {
  ready: Parameters<HarnessEvents['ready']>[0] | undefined
  /** Why it could not boot; `undefined` once it has. */
  failed: ReportError | undefined
  /** The step of the reload that runs. */
  progress: Progress | undefined
  /** What that waits for, at the moment of the call. */
  waits: (() => Waits) | undefined
  readonly reloads: ReloadReport[] = []
  /** The newest verdict on each generation. */
  readonly audits = new Map<string, AuditReport>()
  readonly whys: WhyReport[] = []
  readonly errors: TimedError[] = []

  /** Notes what is told. */
  readonly notes: Partial<HarnessEvents> = {
    ready: info => {
      this.ready = info
      this.failed = undefined
    },
    failed: error => {
      this.failed = error
    },
    step: (progress, waits) => {
      this.progress = progress
      this.waits = waits
    },
    reload: report => {
      this.progress = this.waits = undefined
      push(this.reloads, report, KEPT)
    },
    audit: report => {
      const key = generationKey(report)
      // The newest comes last.
      this.audits.delete(key)
      this.audits.set(key, report)
      if (this.audits.size > KEPT) this.audits.delete(this.audits.keys().next().value!)
    },
    why: report => push(this.whys, report, KEPT_FEW),
    error: error => push(this.errors, { ...error, time: timestamp() }, KEPT_FEW)
  }

  /** The providers of which the newest content does not run, since these files could not be reloaded. */
  failedFor(files: Iterable<string>): ProviderReport[] {
    const failed = new Map<string, ProviderReport>()
    for (const file of files) {
      // What was tried again was tried with files that have nothing to do with it.
      const report = this.reloads.findLast(one => !isSuccess(one) && !one.retried && one.cause.includes(file))
      for (const provider of report?.providers ?? []) failed.set(provider.module, provider)
    }
    return [...failed.values()]
  }

  /** Forgets the reports. */
  clear(): void {
    for (const list of [this.reloads, this.whys, this.errors]) list.length = 0
    this.audits.clear()
  }
}

function push<T>(list: T[], item: T, kept: number): void {
  list.push(item)
  if (list.length > kept) list.shift()
}
