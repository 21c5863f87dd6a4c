/** Counts what reloads and audits report while a soak runs. */
import { generationKey } from '../audit/creators.ts'
import { type AuditReport, type Count, place, type ReloadReport } from '../report/report.ts'
import type { SoakReport } from './report.ts'

/** Notes what reloads and audits report, as little of it as the report needs. */
export class Tally {
  readonly outcomes: SoakReport['outcomes'] = {}
  readonly errors = new Set<string>()
  readonly failures = new Set<string>()
  readonly instances: Count = { created: 0, collected: 0 }
  readonly storages: Count = { created: 0, collected: 0 }
  readonly stores: Count = { created: 0, collected: 0 }
  /** Numbers alone: strings and objects would be growth of our own. */
  readonly #ms: Float64Array
  #reloads = 0
  readonly #open = new Map<string, AuditReport>()

  constructor(times: number) {
    this.#ms = new Float64Array(times)
  }

  /** Notes a reload. */
  reload({ outcome, error, reason, failures, ms }: ReloadReport): void {
    this.outcomes[outcome] = (this.outcomes[outcome] ?? 0) + 1
    this.#ms[this.#reloads++] = Object.values(ms).reduce((sum, step) => sum + step, 0)
    const told = error ? `${error.location ? `${place(error.location, '')} ` : ''}${error.message}` : reason?.message
    if (told && outcome !== 'reloaded' && outcome !== 'restarted') this.errors.add(`${outcome}: ${told}`)
    for (const failure of failures) this.failures.add(failure.replace(/\b\d+\b/g, '#'))
  }

  /** Notes a verdict; the last one on a generation counts. */
  audit(report: AuditReport): void {
    const key = generationKey(report)
    const before = this.#open.get(key)
    if (before) this.#count(before, -1)
    this.#count(report, 1)
    if (report.outcome === 'collected') this.#open.delete(key)
    else this.#open.set(key, report)
  }

  #count(report: AuditReport, sign: 1 | -1): void {
    for (const what of ['instances', 'storages', 'stores'] as const) {
      this[what].created += sign * report[what].created
      this[what].collected += sign * report[what].collected
    }
  }

  /** What the report has of all this. */
  summary(): Pick<
    SoakReport,
    'outcomes' | 'errors' | 'failures' | 'instances' | 'storages' | 'stores' | 'retained' | 'reload'
  > {
    const { outcomes, instances, storages, stores } = this
    const ms = this.#ms.slice(0, this.#reloads).toSorted()
    const at = (share: number) => Math.round((ms[Math.floor(ms.length * share)] ?? 0) * 10) / 10
    return {
      outcomes,
      errors: [...this.errors],
      failures: [...this.failures],
      instances,
      storages,
      stores,
      reload: { median: at(0.5), p95: at(0.95) },
      retained: [...this.#open.values()].map(({ module, name, generation, outcome, retainers }) => ({
        module,
        name,
        generation,
        outcome,
        retainers
      }))
    }
  }
}
