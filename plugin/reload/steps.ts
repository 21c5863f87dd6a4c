/** The steps of one reload: their time, the one that runs now, and what failed beside. */
import { now, timestamp } from '../guard/clock.ts'
import { describeError } from '../report/describe.ts'
import type { Progress, Waits } from '../report/events.ts'
import type { ReloadReport, Step } from '../report/report.ts'
import type { Running } from './running.ts'

/** Keeps the book of a reload. */
export class Steps {
  readonly report: ReloadReport
  readonly #onStep: Running['onStep']
  readonly #began = timestamp()
  #progress: Progress | undefined
  /** The step that runs, or ran last. */
  current: Step = 'affected'

  constructor(report: ReloadReport, onStep: Running['onStep']) {
    this.report = report
    this.#onStep = onStep
  }

  /** Runs a step: notes its time, also when it throws. */
  readonly step = async <T>(name: Step, work: () => T | Promise<T>): Promise<T> => {
    const { report } = this
    const start = now()
    const providers = report.providers.map(({ module, name, from }) => ({ module, name, generation: from }))
    this.current = name
    this.#progress = { reload: report.id, step: name, since: timestamp(), began: this.#began, providers }
    this.#onStep(this.#progress)
    try {
      return await work()
    } finally {
      report.ms[name] = now() - start
    }
  }

  /** Tells whom to ask what the step that runs waits for. */
  readonly waits = (waits: () => Waits): void => {
    if (this.#progress) this.#onStep(this.#progress, waits)
  }

  /** Notes what was thrown and stops nothing. */
  readonly failed = (errors: readonly unknown[]): void => {
    this.report.failures.push(...errors.map(error => describeError(error, this.current).message))
  }

  /** Does what must not stop what follows; what it throws is a failure of the report. */
  readonly try = async <T>(work: () => T | Promise<T>): Promise<T | undefined> => {
    try {
      return await work()
    } catch (error) {
      this.failed([error])
      return undefined
    }
  }
}
