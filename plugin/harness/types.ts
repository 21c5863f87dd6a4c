/** What a harness is made of, and whom it tells. */
import type { Limits } from '../reload/running.ts'
import type { LateError } from '../leaks/leftovers.ts'
import type { HarnessEvents } from '../report/events.ts'

/** What a harness is made of. */
export interface HarnessOptions extends Limits {
  /** Absolute path of the module that exports the composing plugin, or of the configuration file whose rows compose it. */
  entry: string
  /** Given to that plugin. */
  config?: unknown
  /** Packages in node_modules whose modules are evaluated, and so reloaded and recorded, like the harness' own. */
  inline: RegExp[]
  /** Whether every retired generation is looked at. */
  audit: boolean
  /** The size of the heap in MB above which that waits for a quiet moment. */
  auditHeap: number
  /** Whether timers, servers and the like are noted also where every promise pays for it. */
  trace: boolean
  /** Whether pages on other machines may do what those on this one may. */
  remote: boolean
}

/** What a running harness tells. */
export interface HarnessListener extends Pick<HarnessEvents, 'audit' | 'auditWaits' | 'slow' | 'step' | 'note'> {
  /** An error that Cordis logged, and whether nobody but us would show it. */
  error(error: unknown, unseen: boolean): void
  /** An error that nobody has caught, of a retired version, or while a reload takes things down and up. */
  late(late: LateError): void
  /** Whether a reload does so, from `close` to its report. */
  isReloading(): boolean
  /** A module imports a path at which there is nothing. */
  unresolved(path: string): void
  /** Resolves when no reload runs. */
  idle(): Promise<void>
  /** Modules have to be replaced although their code is the same. */
  invalidate(ids: string[]): void
}
