/** What a running harness tells those who listen: the terminal, JSON lines, the live page, tests. */
import type { Boundary } from '../scope.ts'
import type { AuditReport, ReloadReport, ReportError, Step, WhyReport } from './report.ts'

/** What a harness tells while it runs. */
export interface HarnessEvents {
  /** It is up: how many provider instances there are, which failed, which wait for what, and how long the boot took. */
  ready(info: { providers: number; failed: string[]; waiting: Waiting[]; ms: number }): void
  /** It could not boot; the next save tries again. */
  failed(error: ReportError): void
  /** A reload has ended, whatever its outcome. */
  reload(report: ReloadReport): void
  /** A retired generation has been judged, or judged again. */
  audit(report: AuditReport): void
  /** An audit waits for a quiet moment, since the heap has so many megabytes. */
  auditWaits(megabytes: number): void
  /** A step that waits has taken `warnAfter`. */
  slow(waits: Waits): void
  /** A step of a reload begins; its end is the next step, or the report. `waits` says what it waits for at the moment. */
  step(progress: Progress, waits?: () => Waits): void
  /** A search of the heap has ended. */
  why(report: WhyReport): void
  /** Something is worth a line, and no error. */
  note(message: string): void
  /** How far something long has come, e.g. a search through the heap; `fraction` is 0 to 1. */
  progress(progress: { what: string; stage: string; fraction: number }): void
  /** An error that Cordis logged while no reload ran, and that nothing else shows. */
  error(error: ReportError): void
}

/** Their names. */
export const EVENTS = [
  'ready',
  'failed',
  'reload',
  'audit',
  'auditWaits',
  'slow',
  'step',
  'why',
  'note',
  'progress',
  'error'
] as const satisfies readonly (keyof HarnessEvents)[]

/** A provider that waits for services which nobody provides yet. */
export interface Waiting {
  provider: string
  services: string[]
}

/** What a reload waits for, at one moment. */
export interface Waits {
  step: 'close' | 'drain'
  /** Whose old instances go, e.g. `"agents 4"`. */
  providers: string[]
  /** In `close`: who has not parked; the first, and how many in all. */
  parking: Parking[]
  parkingTotal: number
  /** The boundaries that are open in what goes: the oldest, and how many in all. */
  open: AwaitedBoundary[]
  total: number
  /** In `drain`: whose disposers have not ended. */
  unloading: Unloading[]
  /** Milliseconds until the reload goes on without them; `null` when it waits for ever. */
  left: number | null
}

/** Somebody who was told to park, and has not. */
export interface Parking {
  /** Whose listener waits, e.g. `"agentLoop 2"`. */
  provider: string
  /** The driver that it waits for, and what that has to end first, where the listener has said so. */
  driver?: string
  step?: string
}

/** An open boundary, and whose it is, e.g. `"agents 4"`. */
export interface AwaitedBoundary extends Boundary {
  provider: string
}

/** Somebody who unloads. */
export interface Unloading {
  name: string
  /** For a dependent: the services that go for which it has to go too. */
  uses: string[]
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
