/** The service `ctx.harnessHmr`: what code that runs in the harness, an agent's tool say, may ask of its own reloads. */
import { resolve } from 'node:path'
import { normalizePath } from 'vite'
import type { Browsers } from './browsers.ts'
import type { BeforeReload } from '../reload/close.ts'
import { reach } from '../reload/plan.ts'
import type { RunningRows } from '../loader/rows.ts'
import { printableLine } from '../guard/printable.ts'
import type { Running } from '../reload/running.ts'
import type { AuditReport, ReloadReport } from '../report/report.ts'
import type { Boundary } from '../scope.ts'
import { targetsOf } from '../reload/targets.ts'

/** The answer to a request: what will happen, and when. It never waits for it. */
export interface Ticket {
  /** Absolute path. */
  file: string
  /**
   * `"deferred"`: whoever asks runs in a boundary that the reload has to drain, so it begins at once and
   * goes on when that boundary is left. `"never"`: no running module uses the file.
   */
  when: 'now' | 'deferred' | 'never'
  /** The providers that are replaced if the content has changed, e.g. `"agents 4"`. */
  providers: string[]
  /** The same in a sentence. */
  message: string
}

/** What goes on now. */
export interface Status {
  /** `booting` until the first boot has ended; `failed`: the next save tries to boot again. */
  state: 'booting' | 'running' | 'reloading' | 'failed' | 'stopped'
  /** Files that were saved and wait for the reload that runs. */
  pending: string[]
  /** Files whose newest content is not what runs, since it could not be reloaded. */
  dirty: string[]
  /** Generations that a reload left behind at the deadline, e.g. `"agents 3"`, and what they still have open. */
  abandoned: { provider: string; boundaries: Boundary[] }[]
}

/** A provider module that runs now. */
export interface RunningProvider {
  /** Absolute path. */
  module: string
  /** The service that it provides, else the plugin's name. */
  name: string
  generation: number
  instances: number
}

/** `ctx.harnessHmr`, there while the harness runs under this plugin. */
export interface HarnessHmr {
  /**
   * Asks for a reload of a file that was just written, as its save does too. Returns at once: to wait for the outcome in
   * the boundary that has to end for it would never end. The outcome is an event, `harness-hmr/report`.
   */
  request(file: string): Ticket
  readonly status: Status
  /** The last reports, oldest first. */
  readonly reports: readonly ReloadReport[]
  /** The newest verdict on each of the last generations that were retired; each is an event too, `harness-hmr/audit`. */
  readonly audits: readonly AuditReport[]
  /** The provider modules that run now, in the order of the composition. */
  readonly providers: readonly RunningProvider[]
  /** The pages that are open in browsers. */
  readonly browsers: Browsers
  /** Shows one line in the terminal. */
  note(message: string): void
}

/** What is emitted on the root context; `declare module 'cordis' { interface Events extends HarnessHmrEvents {} }`. */
export interface HarnessHmrEvents {
  /** Providers will be replaced: drivers park. Awaited for at most `grace`. */
  'harness-hmr/before-reload'(event: BeforeReload): void | Promise<void>
  /** They have been replaced, or the old ones go on. */
  'harness-hmr/after-reload'(report: ReloadReport): void | Promise<void>
  /** How a reload came out. */
  'harness-hmr/report'(report: ReloadReport): void
  /** What became of a generation that was replaced. */
  'harness-hmr/audit'(report: AuditReport): void
}

/** The provider modules among the modules that run now, in the order of the composition. */
export function runningProviders(running: Running | undefined): RunningProvider[] {
  if (!running) return []
  return running.providers.all().map(({ module, name, generation, instances }) => ({
    module,
    name: printableLine(name),
    generation,
    instances: instances.length
  }))
}

/** Answers a request from the modules and fibers that run now. */
export function ticketFor(path: string, root: string, running: RunningRows | undefined): Ticket {
  const file = normalizePath(resolve(root, path))
  const never = (message: string): Ticket => ({ file, when: 'never', providers: [], message })
  if (!running) return never('nothing is reloaded: the harness does not run')
  const { host, rows } = running
  if (rows.files().has(file))
    return {
      file,
      when: 'now',
      providers: [],
      message: 'the rows that have changed are applied; if one fails, the old ones go on'
    }
  const ids = host.modulesOf(file)
  if (ids.length === 0) return never('nothing is reloaded: no running module uses this file')
  const plan = reach(ids, running)
  if (plan.kind === 'ignored') return never(`nothing is reloaded: ${plan.reason.message}`)
  const targets = targetsOf(plan.modules, running)
  const providers = targets.map(({ name, generation }) => printableLine(`${name} ${generation}`))
  const inside = targets.some(({ scopes }) => scopes.some(scope => scope.isInside()))
  const when = inside ? 'deferred' : 'now'
  const what =
    plan.kind === 'restart' ? 'the whole harness restarts' : `${providers.join(', ') || file} will be replaced`
  const until = inside
    ? 'this call has returned and the agent has come to the end of its step'
    : 'what is open has ended'
  return { file, when, providers, message: `${what} when ${until}; if the new version fails, the old one goes on` }
}
