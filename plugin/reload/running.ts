/** A running harness, as far as a reload needs it, and what it tells. */
import type { Auditor } from '../audit/audit.ts'
import type { Fibers } from '../cordis/fibers.ts'
import type { Host } from '../modules/host.ts'
import type { Rows } from '../loader/rows.ts'
import type { Ledger } from '../audit/ledger.ts'
import type { Step } from '../report/report.ts'
import type { Resources } from '../leaks/resources.ts'
import type { Boundary } from '../scope.ts'

/** The limits of a reload, in milliseconds; `Infinity` waits for ever. */
export interface Limits {
  /** How long drivers may take to park before the old instances are disposed. */
  grace: number
  /** After this time a drain is said to be slow, and what it waits for. */
  warnAfter: number
  /** After this time the reload goes on without the drain. */
  deadline: number
}

/** A drain that takes longer than `warnAfter`. */
export interface SlowDrain {
  /** Whose, e.g. `"agents 4"`. */
  providers: string[]
  /** The boundaries that are still open: the oldest, and how many in all. */
  open: Boundary[]
  total: number
  /** Dependents whose disposers have not ended. */
  unloading: string[]
}

/** The step that a reload is in. */
export interface Progress {
  /** The reload's id. */
  reload: number
  step: Step
  /** When the step and the whole reload began, as `Date.now()` counts. */
  since: number
  began: number
  /** What is replaced, with the generation that goes; empty until that is known. */
  providers: { module: string; name: string; generation: number }[]
}

/** The running harness. */
export interface Running {
  /** Module id of the entry. */
  entry: string
  host: Host
  /** What loaders run. */
  rows: Rows
  fibers: Fibers
  ledger: Ledger
  resources: Resources
  auditor: Auditor
  limits: Limits
  /** Aborted when the harness has to end: nothing new is begun or waited for. */
  stopped: AbortSignal
  /** Aborted when that has to happen without what still drains. */
  halted: AbortSignal
  /** Told what a slow drain waits for. */
  onSlow(drain: SlowDrain): void
  /** Told of every step that begins. */
  onStep(progress: Progress): void
  /** Told that modules can be tried again: what held them up has ended. */
  onFree(modules: string[]): void
}

/** What may come from outside while a reload runs. */
export interface Meanwhile {
  /** Gives up the evaluation of the new versions: newer ones were saved. */
  newer?: AbortSignal
  /** Lets the reload go on without its drain, as at the deadline. */
  abandon?: AbortSignal
  /** What was logged, or thrown into the process, on the reload's account; asked once, when the report is complete. */
  heard?(): string[]
}
