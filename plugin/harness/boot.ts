/** Brings a harness up: its ledger, its modules, its copy of Cordis, a root context, and the entry's plugin on it. */
import { existsSync } from 'node:fs'
import { dirname } from 'node:path'
import type { DevEnvironment } from 'vite'
import { normalizeModuleId } from 'vite-node/utils'
import { Auditor } from '../audit/audit.ts'
import { setImmediate } from '../guard/clock.ts'
import { messageOf } from '../guard/contain.ts'
import {
  assertInternals,
  type Context,
  cordisFolders,
  type Fiber,
  findContext,
  type LogMessage
} from '../cordis/cordis.ts'
import { entryPlugin, Fibers } from '../cordis/fibers.ts'
import { Providers } from '../cordis/providers.ts'
import { Creators } from '../audit/creators.ts'
import { type Exports, isReference } from '../modules/exports.ts'
import { Host } from '../modules/host.ts'
import { Ledger } from '../audit/ledger.ts'
import { isConfigFile, loaderPlugin } from '../loader/entry.ts'
import { Rows, type RunningRows } from '../loader/rows.ts'
import { catchLateErrors, type Versions } from '../leaks/leftovers.ts'
import { Resources } from '../leaks/resources.ts'
import { installStackMapping } from '../report/script.ts'
import { leaveShared } from '../audit/shared.ts'
import type { HarnessHmr } from './service.ts'
import type { HarnessListener, HarnessOptions } from './types.ts'
import { within, withAny } from '../guard/within.ts'

/** What ends a boot, and what it has booted. */
export interface BootSignals {
  /** Aborted when newer content of what is evaluated was saved. */
  newer: AbortSignal
  stopped: AbortSignal
  halted: AbortSignal
}

/** A harness that runs. */
export type Booted = RunningRows & { stop(): Promise<void> }

/**
 * Boots a harness. Nothing is left of it when this throws.
 * @throws when the entry is missing, exports no plugin, or fails to evaluate or to apply; when cordis is missing or doubled.
 */
export async function boot(
  env: DevEnvironment,
  options: HarnessOptions,
  listener: HarnessListener,
  service: HarnessHmr,
  signals: BootSignals
): Promise<Booted> {
  const { entry } = options
  if (!existsSync(entry))
    throw new Error(
      `entry "${entry}" does not exist. Set \`harnessHmr({ entry })\` to the module that composes your harness`
    )
  const booting = new Booting(options, listener, signals)
  try {
    const plugin = await booting.evaluate(env)
    const root = new (await findContext(booting.host, entry))()
    assertInternals(root)
    booting.attach(root, service)
    await booting.apply(plugin)
    return booting.running()
  } catch (error) {
    // Node tells at the end of the turn of what was rejected with it, and somebody has to listen by then.
    await new Promise(resolve => setImmediate(resolve))
    await booting.undo()
    throw error
  }
}

/** A harness on its way up: one part after the other, and how each is taken away again. */
class Booting {
  readonly #options: HarnessOptions
  readonly #listener: HarnessListener
  readonly #signals: BootSignals
  readonly #ledger: Ledger
  readonly #leaks: Resources
  readonly #undo: (() => unknown)[]
  /** Modules that have ever been a provider's: a retired generation's storages are its own when it exports no plugin any more. */
  readonly #were = new Set<string>()
  /** Errors that were told: what the log says of them is the second word. */
  readonly #told = new WeakSet()
  #isStopping = false
  host!: Host
  #fibers!: Fibers
  #providers: Providers | undefined
  #rows: Rows | undefined

  constructor(options: HarnessOptions, listener: HarnessListener, signals: BootSignals) {
    this.#options = options
    this.#listener = listener
    this.#signals = signals
    const creators = new Creators(
      ({ file, version }) => this.host?.evaluates(file, version),
      id => this.#wasProvider(id)
    )
    const unnoted = (cause: unknown) =>
      listener.error(new Error(`what the harness starts is not fully known: ${messageOf(cause)}`, { cause }), true)
    this.#ledger = new Ledger(creators, unnoted)
    this.#leaks = new Resources(creators, this.#ledger, unnoted)
    this.#undo = [this.#ledger.listen(), this.#leaks.listen(options.trace), installStackMapping()]
  }

  /** Evaluates the entry; resolves with the plugin that composes the harness. */
  async evaluate(env: DevEnvironment): Promise<unknown> {
    const { entry, inline, deadline } = this.#options
    const host = new Host(env, {
      builtin: specifier => this.#ledger.builtin(specifier),
      inline,
      external: await cordisFolders(env, entry),
      isAskedFor: id => this.#rows?.asksFor(id) ?? false,
      onInvalidate: ids => this.#listener.invalidate(ids),
      onUnresolved: path => this.#listener.unresolved(path),
      onError: error => this.#listener.error(error, true),
      deadline
    })
    this.host = host
    this.#undo.push(() => host.close())
    if (isConfigFile(entry)) return loaderPlugin(host, entry)
    const { newer, stopped } = this.#signals
    const load = (signal: AbortSignal) => host.import(entry, undefined, { ms: deadline, signal })
    return pluginOf(await withAny([newer, stopped], load), entry)
  }

  /** Listens to a root context, on which nothing is applied yet, and gives it the service. */
  attach(root: Context, service: HarnessHmr): void {
    const { host } = this
    const listener = this.#listener
    this.#fibers = new Fibers(root)
    this.#providers = new Providers(host, this.#fibers)
    this.#rows = new Rows({
      host,
      folder: dirname(this.#options.entry),
      isReloading: () => this.#isReloading(),
      failed: error => {
        if (this.#isNew(error)) listener.error(error, true)
      },
      note: message => listener.note(message)
    })
    this.#rows.attach(root)
    this.#undo.push(catchLateErrors(this.#versions(), late => listener.late(late)))
    root.reflect.provide('harnessHmr', service)
    root.logger.exporter({
      export: ({ type, args: [error] }: LogMessage) => {
        if (type !== 'error' || !this.#isNew(error)) return
        listener.error(error, root.logger.exporters.size <= OWN_EXPORTERS)
      }
    })
    // Before the host: what a plugin has made may need what its module has made.
    this.#undo.push(() => within(this.#options.deadline, Promise.resolve(root.fiber.dispose())))
  }

  /** Applies the composing plugin and waits for what it has applied. */
  async apply(plugin: unknown): Promise<void> {
    const { config, deadline } = this.#options
    const { stopped } = this.#signals
    await ready(this.#fibers.apply(this.#fibers.root, plugin, config), deadline, stopped)
    await within(deadline, this.#rows!.settled(this.#fibers), stopped)
  }

  /** The harness that has come up. */
  running(): Booted {
    const { entry, grace, warnAfter, deadline } = this.#options
    const { stopped, halted } = this.#signals
    const listener = this.#listener
    const auditor = this.#auditor()
    return {
      entry: normalizeModuleId(entry),
      host: this.host,
      rows: this.#rows!,
      fibers: this.#fibers,
      providers: this.#providers!,
      ledger: this.#ledger,
      leaks: this.#leaks,
      auditor,
      limits: { grace, warnAfter, deadline },
      stopped,
      halted,
      onSlow: waits => listener.slow(waits),
      onStep: (progress, waits) => listener.step(progress, waits),
      onFree: modules => listener.invalidate(modules),
      stop: () => {
        auditor.stop()
        this.#isStopping = true
        return this.undo()
      }
    }
  }

  /** Takes away what there is, the newest first. */
  async undo(): Promise<void> {
    for (const step of this.#undo.splice(0).toReversed()) await step()
  }

  #auditor(): Auditor {
    const { audit, auditHeap } = this.#options
    const listener = this.#listener
    const living = { ledger: this.#ledger, host: this.host, providers: this.#providers! }
    return new Auditor({
      ledger: this.#ledger,
      leaks: this.#leaks,
      limits: { audit, auditHeap },
      idle: () => listener.idle(),
      leaveShared: retired => leaveShared(retired, living),
      report: report => listener.audit(report),
      waits: megabytes => listener.auditWaits(megabytes),
      failed: cause => listener.error(new Error(`the audit failed: ${String(cause)}`, { cause }), true)
    })
  }

  #versions(): Versions {
    const { host } = this
    return {
      evaluates: (file, version) => host.evaluates(file, version),
      runs: (file, version) => host.runs(file, version),
      serving: module => {
        const { name, generation } = this.#providers!.of(module)
        return { name, generation: generation || undefined }
      },
      isReloading: () => this.#isReloading(),
      wasLogged: error => isReference(error) && this.#told.has(error)
    }
  }

  #isReloading(): boolean {
    return this.#isStopping || this.#listener.isReloading()
  }

  #wasProvider(id: string): boolean {
    if (!this.#were.has(id) && (this.#providers?.of(id).instances.length ?? 0) > 0) this.#were.add(id)
    return this.#were.has(id)
  }

  /** Whether an error is told for the first time; notes it. */
  #isNew(error: unknown): boolean {
    if (!isReference(error)) return true
    if (this.#told.has(error)) return false
    this.#told.add(error)
    return true
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
