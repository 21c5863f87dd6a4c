/** A running harness, as far as a reload needs it, and what it tells. */
import type { Auditor } from '../audit/audit.ts'
import type { Fibers } from '../cordis/fibers.ts'
import type { Providers } from '../cordis/providers.ts'
import type { Host } from '../modules/host.ts'
import type { Ledger } from '../audit/ledger.ts'
import type { Progress, Waits } from '../report/events.ts'
import type { Leaks } from '../audit/leaks.ts'

/** The limits of a reload, in milliseconds; `Infinity` waits forever. */
export interface Limits {
  /** How long drivers may take to park before the old instances are disposed. */
  grace: number
  /** After this time a drain is said to be slow, and what it waits for. */
  warnAfter: number
  /** After this time the reload goes on without the drain. */
  deadline: number
}

/** The running harness. */
export interface Running {
  /** Module id of the entry. */
  entry: string
  host: Host
  /** What loaders run. */
  /** What a loader applies, in its own time. */
  rows: { areThere(): boolean; settled(fibers: Fibers): Promise<void> }
  fibers: Fibers
  providers: Providers
  ledger: Ledger
  leaks: Leaks
  auditor: Auditor
  limits: Limits
  /** Aborted when the harness has to end: nothing new is begun or waited for. */
  stopped: AbortSignal
  /** Aborted when that has to happen without what still drains. */
  halted: AbortSignal
  /** Told what a step that is slow waits for. */
  onSlow(waits: Waits): void
  /** Told of every step that begins, and of one that waits once more, with whom to ask for what. */
  onStep(progress: Progress, waits?: () => Waits): void
  /** Told that modules can be tried again: what held them up has ended. */
  onFree(modules: string[]): void
}

/** What may come from outside while a reload runs. */
export interface Meanwhile {
  /** Gives up the evaluation of the new versions: newer ones were saved. */
  newer?: AbortSignal
  /** Let the reload go on without those that have not parked, or without its drain, as when their time is over. */
  abandon?: Record<Waits['step'], AbortSignal>
  /** What was logged, or thrown into the process, on the reload's account; asked once, when the report is complete. */
  heard?(): string[]
}
