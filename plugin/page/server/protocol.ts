/**
 * What the live page and the server tell each other, over Vite's own WebSocket, which lets in who has its token. The page
 * says `open` and gets a snapshot, then deltas; it commands, and gets an answer. Nothing of it is served over HTTP.
 */
import type { TimedError } from '../../harness/history.ts'
import type { AwaitedBoundary, Progress, Waits } from '../../report/events.ts'
import type { Limits } from '../../reload/running.ts'
import type { AuditReport, ReloadReport, ReportError, WhyReport } from '../../report/report.ts'
import type { Location } from '../../report/script.ts'

/** The names of the messages. */
export const OPEN = 'harness-hmr:open'
export const SNAPSHOT = 'harness-hmr:snapshot'
export const DELTA = 'harness-hmr:delta'
export const COMMAND = 'harness-hmr:command'
export const ANSWER = 'harness-hmr:answer'

/** Cordis' words for the states of a fiber. */
export type FiberStateName = 'pending' | 'loading' | 'active' | 'failed' | 'disposed' | 'unloading'

/** The fibers of one plugin under one parent. */
export interface FiberNode {
  /** Unique among all nodes, and the same as long as the node is there. */
  key: string
  name: string
  /** How many fibers, by state. */
  states: Partial<Record<FiberStateName, number>>
  /** Services that they provide. */
  provides: string[]
  /** Services that they wait for. */
  waitsFor: string[]
  /** The provider module that exports the plugin. */
  module?: string
  generation?: number
  children: FiberNode[]
}

/** A generation of a module, by the name that reports give it. */
export interface Owner {
  module: string
  name: string
  generation: number
}

/** One open boundary. */
export interface OpenBoundary extends Owner {
  key: string
  label: string
  /** When it was opened, as `Date.now()` counts. */
  since: number
  /** Places in the harness' own files on the stack that opened it, innermost first. */
  opened: Location[]
}

/** The open boundaries: all counted, the oldest of them listed. */
export interface OpenBoundaries {
  total: number
  oldest: OpenBoundary[]
}

/** What a step waits for. */
export interface ShownWaits extends Omit<Waits, 'providers' | 'open' | 'left'> {
  /** As in {@link OpenBoundary}. */
  open: (Pick<AwaitedBoundary, 'label' | 'provider' | 'since'> & Pick<OpenBoundary, 'opened'>)[]
}

/** The storages of a generation that are alive. */
export interface LiveStorages extends Owner {
  storages: number
  open: number
  /** Whether the generation is the one that runs. */
  isCurrent: boolean
}

/** What the charts show; taken after a reload and after its audit, while a page is open. */
export interface Sample {
  /** The reload after which it was taken; 0 before the first. */
  reload: number
  storages: number
  /** Bytes that are in use. */
  heap: number
  /** Microseconds that an awaited boundary takes. */
  boundary: number
}

/** What is replaced as a whole when it has changed. */
export interface Parts {
  harness: { state: 'booting' | 'running' | 'failed' | 'stopped'; failed: ReportError | null; modules: number }
  fibers: FiberNode[]
  boundaries: OpenBoundaries
  storages: LiveStorages[]
  /** The step of the reload that runs. */
  progress: Progress | null
  /** What that waits for. */
  waits: ShownWaits | null
  /** Files that wait, files whose newest content is not what runs, and the provider modules that this is about. */
  files: { pending: string[]; dirty: string[]; broken: string[] }
  /** Generations whose drain was abandoned and has not ended, e.g. `"agents 3"`. */
  abandoned: string[]
}

/** What only grows; of audits and samples the newest of a generation, and of a reload, counts. */
export interface Lists {
  reloads: ReloadReport[]
  audits: AuditReport[]
  whys: WhyReport[]
  errors: TimedError[]
  samples: Sample[]
}

/** Something long that runs, e.g. a search through the heap. */
export interface Task {
  what: string
  stage: string
  fraction: number
}

/** All that a page shows. */
export interface Snapshot extends Parts, Lists {
  /** The server's `Date.now()`: clocks differ. */
  now: number
  root: string
  entry: string
  versions: { node: string; vite: string }
  /** `null` stands for `Infinity`. */
  limits: { [K in keyof Limits]: number | null }
}

/** What has changed since the last one. */
export interface Delta {
  now: number
  parts?: Partial<Parts>
  lists?: Partial<Lists>
  task?: Task
}

/** What a page may ask for. */
export type Command =
  | { do: 'reload'; module: string }
  | { do: 'audit' }
  | { do: 'why'; module?: string; generation?: number }
  | { do: 'abandon' }
  | { do: 'settle' }

/** What became of a command: a sentence, or why it could not be done. */
export interface Answer {
  id: number
  message?: string
  error?: string
}
