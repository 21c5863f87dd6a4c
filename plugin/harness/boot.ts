/** Brings a harness up: its ledger, its modules, its copy of Cordis, a root context, and the entry's plugin on it. */
import { existsSync } from 'node:fs'
import { dirname } from 'node:path'
import type { DevEnvironment } from 'vite'
import { normalizeModuleId } from 'vite-node/utils'
import { Auditor } from '../audit/audit.ts'
import { setImmediate } from '../guard/clock.ts'
import { messageOf } from '../guard/contain.ts'
import { assertInternals, cordisFolders, type Fiber, findContext, type LogMessage } from '../cordis/cordis.ts'
import { entryPlugin, Fibers } from '../cordis/fibers.ts'
import { Providers } from '../cordis/providers.ts'
import { Creators } from '../audit/creators.ts'
import { type Exports, isReference } from '../modules/exports.ts'
import { Host } from '../modules/host.ts'
import { Ledger } from '../audit/ledger.ts'
import { isConfigFile, loaderPlugin } from '../loader/entry.ts'
import { Rows, type RunningRows } from '../loader/rows.ts'
import { catchLateErrors, type LateError, type Versions } from '../leaks/leftovers.ts'
import type { Progress, SlowDrain } from '../report/events.ts'
import type { Limits } from '../reload/running.ts'
import type { AuditReport } from '../report/report.ts'
import { Resources } from '../leaks/resources.ts'
import { installStackMapping } from '../report/script.ts'
import { leaveShared } from '../audit/shared.ts'
import type { HarnessHmr } from './service.ts'
import { anyOf, within } from '../guard/within.ts'

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
  /** Something is worth a line. */
  note(message: string): void
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
): Promise<RunningRows & { stop(): Promise<void> }> {
  const { entry, config, inline, grace, warnAfter, deadline, audit, auditHeap, trace } = options
  if (!existsSync(entry))
    throw new Error(
      `entry "${entry}" does not exist. Set \`harnessHmr({ entry })\` to the module that composes your harness`
    )
  let host: Host
  let fibers: Fibers
  let providers: Providers
  const were = new Set<string>()
  let rows: Rows | undefined
  const isProvider = (id: string) => {
    // A retired generation's storages are its provider's, also when the module exports no plugin any more.
    if (!were.has(id) && providers?.of(id).instances.length > 0) were.add(id)
    return were.has(id)
  }
  const creators = new Creators(({ file, version }) => host?.evaluates(file, version), isProvider)
  const unnoted = (cause: unknown) =>
    listener.error(new Error(`what the harness starts is not fully known: ${messageOf(cause)}`, { cause }), true)
  const ledger = new Ledger(creators, unnoted)
  const leaks = new Resources(creators, ledger, unnoted)
  const undo: (() => unknown)[] = [ledger.listen(), leaks.listen(trace), installStackMapping()]
  try {
    host = new Host(env, {
      builtin: specifier => ledger.builtin(specifier),
      inline,
      external: await cordisFolders(env, entry),
      isAskedFor: id => rows?.asksFor(id) ?? false,
      onInvalidate: ids => listener.invalidate(ids),
      onUnresolved: path => listener.unresolved(path),
      onError: error => listener.error(error, true),
      deadline
    })
    undo.push(() => host.close())
    const patience = { ms: deadline, signal: anyOf(newer, stopped) }
    const plugin = isConfigFile(entry)
      ? await loaderPlugin(host, entry)
      : pluginOf(await host.import(entry, undefined, patience), entry)
    const root = new (await findContext(host, entry))()
    assertInternals(root)
    fibers = new Fibers(root)
    providers = new Providers(host, fibers)
    let isStopping = false
    const logged = new WeakSet()
    // Of an error that was told before, the log is the second word.
    const isFirst = (error: unknown) => !isReference(error) || (!logged.has(error) && logged.add(error) !== undefined)
    const failed = (error: unknown) => {
      if (isFirst(error)) listener.error(error, true)
    }
    const note = (message: string) => listener.note(message)
    const isReloading = () => isStopping || listener.isReloading()
    rows = new Rows({ host, folder: dirname(entry), isReloading, failed, note })
    rows.attach(root)
    const versions: Versions = {
      evaluates: (file, version) => host.evaluates(file, version),
      runs: (file, version) => host.runs(file, version),
      serving: module => {
        const { name, generation } = providers.of(module)
        return { name, generation: generation || undefined }
      },
      isReloading,
      wasLogged: error => isReference(error) && logged.has(error)
    }
    undo.push(catchLateErrors(versions, late => listener.late(late)))
    root.reflect.provide('harnessHmr', service)
    root.logger.exporter({
      export: ({ type, args: [error] }: LogMessage) => {
        if (type === 'error' && isFirst(error)) listener.error(error, root.logger.exporters.size <= OWN_EXPORTERS)
      }
    })
    // Before the host: what a plugin has made may need what its module has made.
    undo.push(() => within(deadline, Promise.resolve(root.fiber.dispose())))
    await ready(fibers.apply(root, plugin, config), deadline, stopped)
    await within(deadline, rows.settled(fibers), stopped)
    const auditor = new Auditor({
      ledger,
      leaks,
      limits: { audit, auditHeap },
      idle: () => listener.idle(),
      leaveShared: retired => leaveShared(retired, { ledger, host, providers }),
      report: report => listener.audit(report),
      waits: megabytes => listener.auditWaits(megabytes),
      failed: cause => listener.error(new Error(`the audit failed: ${String(cause)}`, { cause }), true)
    })
    return {
      entry: normalizeModuleId(entry),
      host,
      rows,
      fibers,
      providers,
      ledger,
      leaks,
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
    // Node tells at the end of the turn of what was rejected with it, and somebody has to listen by then.
    await new Promise(resolve => setImmediate(resolve))
    for (const step of undo.toReversed()) await step()
    throw error
  }
}

/** @throws when a module exports no plugin. */
function pluginOf(exports: Exports, entry: string): unknown {
  const plugin = entryPlugin(exports)
  if (plugin) return plugin
  throw new Error(
    `entry "${entry}" exports no plugin. Its default export must be a Cordis plugin: \`export default function (ctx, config) { … }\``
  )
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
