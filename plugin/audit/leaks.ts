/** Who names what the audit finds left over. The audit itself proves only that something is, or is not. */
import type { Retainer } from '../report/report.ts'
import type { Generation } from './creators.ts'
import type { LedgerEntry } from './ledger.ts'

/** What runs on behalf of whom, as far as somebody takes notes of it. */
export interface Leaks {
  /** What a generation started and had to end, and has not. */
  leftBy(generation: Generation): Retainer[]
  /** What packages started on a generation's behalf: it may be another's too, but may be what keeps the generation. */
  startedFor(generation: Generation): Retainer[]
  /** What was started inside of any of these storages, by whomever, and has not ended. */
  startedInside(entries: readonly LedgerEntry[]): Retainer[]
  /** The generations that have started something and not ended it, the running ones among them. */
  starters(): Generation[]
  /** Makes Node let go of what it keeps by itself; called before a collection. */
  letGo(): void
  /** Counts the listeners of `process`; what is returned says, later, of which events there are more. */
  countListeners(): () => string[]
}
