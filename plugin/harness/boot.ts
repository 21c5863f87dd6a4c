/** Brings a harness up: its ledger, its modules, its copy of Cordis, a root context, and the entry's plugin on it. */
import { existsSync } from 'node:fs'
import type { DevEnvironment } from 'vite'
import { normalizeModuleId } from 'vite-node/utils'
import { Auditor } from '../audit/audit.ts'
import { messageOf } from '../guard/contain.ts'
import { assertInternals, cordisFolders, type Fiber, findContext, type LogMessage } from '../cordis/cordis.ts'
import { entryPlugin, Fibers } from '../cordis/fibers.ts'
import { Creators } from '../audit/creators.ts'
import { Host } from '../modules/host.ts'
import { Ledger } from '../audit/ledger.ts'
import { catchLateErrors, type LateError, type Versions } from '../leaks/leftovers.ts'
import type { Limits, Progress, Running, SlowDrain } from '../reload/running.ts'
import type { AuditReport } from '../report/report.ts'
import { Resources } from '../leaks/resources.ts'
import { installStackMapping } from '../modules/script.ts'
import { leaveShared } from '../audit/shared.ts'
import { nameOf } from '../reload/targets.ts'
import type { HarnessHmr } from './service.ts'
import { anyOf, within } from '../guard/within.ts'

/** What a harness is made of. */
export interface HarnessOptions extends Limits {
  /** Absolute path of the module that exports the composing plugin. */
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
}

/** What a running harness tells. */
export interface HarnessListener {
  audit(report: AuditReport): void
  /** An audit waits for a quiet moment, since the heap has so many megabytes. */
  auditWaits(megabytes: number): void
  slow(drain: SlowDrain): void
  step(progress: Progress): void
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

/**
 * Boots a harness. Nothing is left of it when this throws.
 * @throws when the entry is missing, exports no plugin, or fails to evaluate or to apply; when cordis is missing or doubled.
 */
export async function boot(
  env: DevEnvironment,
  options: HarnessOptions,
  listener: HarnessListener,
  service: HarnessHmr,
  { newer, stopped, halted }: { newer: AbortSignal; stopped: AbortSignal; halted: AbortSignal }
): Promise<Running & { stop(): Promise<void> }> {
  const { entry, config, inline, grace, warnAfter, deadline, audit, auditHeap, trace } = options
  if (!existsSync(entry))
    throw new Error(
      `entry "${entry}" does not exist. Set \`harnessHmr({ entry })\` to the module that composes your harness`
    )
  let host: Host
  let fibers: Fibers
  const providers = new Set<string>()
  const isProvider = (id: string) => {
    // A retired generation's storages are its provider's, also when the module exports no plugin any more.
    if (!providers.has(id) && fibers?.instances(id, host.ownExports(id)).length > 0) providers.add(id)
    return providers.has(id)
  }
  const creators = new Creators(({ file, version }) => host?.evaluates(file, version), isProvider)
  const unnoted = (cause: unknown) =>
    listener.error(new Error(`what the harness starts is not fully known: ${messageOf(cause)}`, { cause }), true)
  const ledger = new Ledger(creators, unnoted)
  const resources = new Resources(creators, ledger, unnoted)
  const undo: (() => unknown)[] = [ledger.listen(), resources.listen(trace), installStackMapping()]
  try {
    host = new Host(env, ledger, {
      inline,
      external: await cordisFolders(env, entry),
      onInvalidate: ids => listener.invalidate(ids),
      onUnresolved: path => listener.unresolved(path),
      onError: error => listener.error(error, true),
      deadline
    })
    undo.push(() => host.close())
    const patience = { ms: deadline, signal: anyOf(newer, stopped) }
    const exports = await host.import(entry, undefined, patience)
    const plugin = entryPlugin(exports)
    if (!plugin)
      throw new Error(
        `entry "${entry}" exports no plugin. Its default export must be a Cordis plugin: \`export default function (ctx, config) { … }\``
      )
    const root = new (await findContext(host, entry))()
    assertInternals(root)
    fibers = new Fibers(root)
    let isStopping = false
    const versions: Versions = {
      evaluates: (file, version) => host.evaluates(file, version),
      runs: (file, version) => host.runs(file, version),
      serving: module => {
        const [instance] = fibers.instances(module, host.ownExports(module))
        return {
          name: nameOf(module, instance?.fiber, fibers),
          generation: host.version(host.exports(module)) || undefined
        }
      },
      isReloading: () => isStopping || listener.isReloading()
    }
    undo.push(catchLateErrors(versions, late => listener.late(late)))
    root.reflect.provide('harnessHmr', service)
    root.logger.exporter({ export: message => logged(message, root.logger.exporters.size <= OWN_EXPORTERS, listener) })
    // Before the host: what a plugin has made may need what its module has made.
    undo.push(() => within(deadline, Promise.resolve(root.fiber.dispose())))
    await ready(fibers.apply(root, plugin, config), deadline, stopped)
    await within(deadline, fibers.settled(), stopped)
    const auditor = new Auditor({
      ledger,
      resources,
      limits: { audit, auditHeap },
      idle: () => listener.idle(),
      leaveShared: retired => leaveShared(retired, { ledger, host, fibers }),
      report: report => listener.audit(report),
      waits: megabytes => listener.auditWaits(megabytes),
      failed: cause => listener.error(new Error(`the audit failed: ${String(cause)}`, { cause }), true)
    })
    return {
      entry: normalizeModuleId(entry),
      host,
      fibers,
      ledger,
      resources,
      auditor,
      limits: { grace, warnAfter, deadline },
      stopped,
      halted,
      onSlow: drain => listener.slow(drain),
      onStep: progress => listener.step(progress),
      onFree: modules => listener.invalidate(modules),
      stop: async () => {
        auditor.stop()
        isStopping = true
        for (const step of undo.splice(0).toReversed()) await step()
      }
    }
  } catch (error) {
    for (const step of undo.toReversed()) await step()
    throw error
  }
}

/** Waits until the entry's plugin runs. @throws what it throws, and when it has not ended in time. */
async function ready(fiber: Fiber, deadline: number, stopped: AbortSignal): Promise<void> {
  if (await within(deadline, fiber.await(), stopped)) return
  throw new Error(
    stopped.aborted ? 'the harness stops' : `the entry's plugin has not become active within ${deadline} ms`
  )
}

/** Cordis' own buffer, and ours. */
const OWN_EXPORTERS = 2

function logged({ type, args }: LogMessage, unseen: boolean, listener: HarnessListener): void {
  if (type === 'error') listener.error(args[0], unseen)
}
