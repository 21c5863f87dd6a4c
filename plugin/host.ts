/**
 * The harness' modules, evaluated by vite-node: import, the import graph, and staging, which evaluates new versions beside
 * the running ones and then either puts them in their place or forgets them.
 */
import type { EventEmitter } from 'node:events'
import { existsSync } from 'node:fs'
import { url as inspectorUrl } from 'node:inspector'
import { dirname, isAbsolute, join } from 'node:path'
import type { DevEnvironment, HotPayload } from 'vite'
import { ModuleCacheMap, type ViteNodeRunner } from 'vite-node/client'
import { shouldExternalize } from 'vite-node/server'
import { normalizeModuleId } from 'vite-node/utils'
import { read } from './contain.ts'
import { orGiveUp } from './evaluating.ts'
import { HotModules, type StagedHot } from './hot.ts'
import type { Ledger } from './ledger.ts'
import { LiveExports } from './live-exports.ts'
import { outside } from './outside.ts'
import { chainIn, importChains, type ModuleRecord, Overlay } from './overlay.ts'
import { Runner } from './runner.ts'
import { nameScript, scriptMap, scriptName } from './script.ts'

/** The namespace object of an evaluated module. */
export type Exports = Record<string, unknown>

type SourceMap = NonNullable<Parameters<typeof nameScript>[1]>
type Next = Parameters<ModuleCacheMap['setByModuleId']>[1] | undefined

/** New versions of some modules, evaluated and not yet in place. */
export interface Stage {
  /** Modules that nothing imports any more. */
  unused: string[]
  /** The new exports of a module; `undefined` when the new code does not import it any more. */
  exports(id: string): Exports | undefined
  /** Puts the new versions in place; importers that were left as they are see the new exports. */
  commit(): void
  /** Undoes `commit`. */
  revert(): void
  /** Forgets the new versions; for a stage that is not in place. */
  drop(): void
}

/** Which packages run outside of the host (`external`) though they would be evaluated by it, or the other way round. */
export interface HostOptions {
  inline?: (string | RegExp)[]
  external?: (string | RegExp)[]
  /** A module has called `import.meta.hot.invalidate()`: these, its importers, have to be replaced. */
  onInvalidate?: (ids: string[]) => void
  /** A module imports a path, absolute or from the root, at which there is nothing. */
  onUnresolved?: (path: string) => void
}

/** Runs the modules of one harness in one Vite environment. */
export class Host {
  readonly #env: DevEnvironment
  readonly #ledger: Ledger
  readonly #options: HostOptions
  readonly #external = new Map<string, Promise<string | false>>()
  readonly #maps = new Map<string, SourceMap | undefined>()
  readonly #scripts = new WeakMap<Exports, { file: string; version: number }>()
  readonly #definers = new WeakMap<object, string>()
  readonly #order = new Map<string, number>()
  /** By file. Several hosts of one process count together, so that no two evaluations of a file have the same number. */
  readonly #versions = new Map<string, Set<number>>()
  readonly #live = new LiveExports()
  readonly #modules = new ModuleCacheMap()
  /** `import.meta.hot` of the running modules. */
  readonly hot: HotModules
  readonly #runner: ViteNodeRunner

  constructor(env: DevEnvironment, ledger: Ledger, options: HostOptions = {}) {
    this.#env = env
    this.#ledger = ledger
    this.#options = options
    this.hot = new HotModules({
      idOf: url => normalizeModuleId(env.moduleGraph.urlToModuleMap.get(url)?.id ?? url),
      invalidate: id => options.onInvalidate?.(this.importers(id)),
      send: (event, data) => channel(env)?.innerEmitter.emit(event, data, { send: env.hot.send.bind(env.hot) })
    })
    channel(env)?.outsideEmitter.on('send', this.#receive)
    this.#runner = this.#createRunner(this.#modules)
  }

  /** Stops listening to the dev server. */
  close(): void {
    channel(this.#env)?.outsideEmitter.off('send', this.#receive)
  }

  readonly #receive = (payload: HotPayload) => {
    if (payload.type === 'custom') this.hot.emit(payload.event, payload.data)
  }

  /** Imports a module by file or specifier, as if `importer` had written it. */
  async import(id: string, importer?: string, signal?: AbortSignal): Promise<Exports> {
    const resolved = importer === undefined ? id : ((await this.#env.pluginContainer.resolveId(id, importer))?.id ?? id)
    return orGiveUp(this.#runner.executeId(resolved), this.#modules, signal)
  }

  /**
   * The running modules that are made from a file: itself, with queries, with other ids that a plugin gave it, and those
   * whose transform has asked to watch it (`addWatchFile`).
   */
  modulesOf(file: string): string[] {
    const ids = new Set([normalizeModuleId(file)])
    const nodes = new Set(this.#env.moduleGraph.getModulesByFile(file))
    for (const node of nodes) {
      const id = node.id === null ? undefined : normalizeModuleId(node.id)
      if (id !== undefined) ids.add(id)
      // A file that is no module itself: those it is part of are.
      if (id === undefined || !this.#modules.has(id)) for (const importer of node.importers) nodes.add(importer)
    }
    return [...ids].filter(id => this.#modules.has(id))
  }

  /** Whether a file, or that version of it, was ever evaluated here, in place or staged. */
  evaluates(file: string, version?: number): boolean {
    const versions = this.#versions.get(file)
    return versions !== undefined && (version === undefined || versions.has(version))
  }

  /** Whether that version of a file runs; a file may be several modules (`?raw`, `?worker`). */
  runs(file: string, version: number): boolean {
    return this.scripts().some(script => script.file === file && script.version === version)
  }

  /** The file and version of every module that runs. */
  scripts(): { file: string; version: number }[] {
    return [...this.#modules.values()].flatMap(({ exports }) => (exports && this.#scripts.get(exports)) ?? [])
  }

  /** Every module that is evaluated here, in the order in which it was first asked for; externals are not among them. */
  modules(): string[] {
    return [...this.#modules.keys()].filter(id => this.#modules.getByModuleId(id).code !== undefined)
  }

  /** The files of the modules that are evaluated here. */
  files(): string[] {
    return [...this.#order.keys()]
  }

  /** Modules in the order in which they were first evaluated: with cycles, another order gives another result. */
  inOrder(ids: Iterable<string>): string[] {
    return [...ids].toSorted((a, b) => (this.#order.get(a) ?? Infinity) - (this.#order.get(b) ?? Infinity))
  }

  /** The exports of a running module. */
  exports(id: string): Exports | undefined {
    return this.#modules.has(id) ? this.#modules.getByModuleId(id).exports : undefined
  }

  /**
   * What a running module defines itself, without what it re-exports of another one: a barrel owns no plugin. The first
   * module to finish with a value among its exports is the one that defines it, also in a cycle.
   */
  ownExports(id: string): Exports {
    const exports = this.exports(id) ?? {}
    return Object.fromEntries(names(exports).filter(([, value]) => this.#definers.get(value as object) === id))
  }

  /** How often the module's file was evaluated when its running version was: its generation. */
  version(exports: Exports | undefined): number {
    return (exports && this.#scripts.get(exports)?.version) ?? 0
  }

  /** The running modules that import `id`. */
  importers(id: string): string[] {
    return this.#modules.has(id) ? [...this.#modules.getByModuleId(id).importers] : []
  }

  /** The running modules that `id` imports. */
  imports(id: string): string[] {
    return this.#modules.has(id) ? [...this.#modules.getByModuleId(id).imports].map(normalizeModuleId) : []
  }

  /** The namespace objects of every module, externals included, with their ids. */
  *evaluated(): Iterable<[id: string, exports: Exports]> {
    for (const [id, { exports }] of this.#modules) if (exports) yield [id, exports as Exports]
  }

  /** Makes Vite read a file again: it does so by itself for an update, and not for a deleted or re-created file. */
  invalidate(file: string): void {
    for (const node of this.#env.moduleGraph.getModulesByFile(file) ?? []) {
      this.#env.moduleGraph.invalidateModule(node)
      if (existsSync(file)) continue
      // What they import may be found elsewhere now: `h.ts` became `h/index.ts`.
      for (const importer of node.importers) this.#env.moduleGraph.invalidateModule(importer)
    }
  }

  /** The same for a module that is not saved, but named. */
  invalidateModule(id: string): void {
    const node = this.#env.moduleGraph.getModuleById(id)
    if (node) this.#env.moduleGraph.invalidateModule(node)
  }

  /** Whether a module's newest code differs from what runs. Code that does not transform differs: staging it says why. */
  async isChanged(id: string): Promise<boolean> {
    const result = await this.#env.transformRequest(id).catch(() => undefined)
    return stripTimestamps(result?.code) !== stripTimestamps(this.#modules.getByModuleId(id).code)
  }

  /**
   * Evaluates new versions of `invalid` beside the running ones by importing `roots`.
   * @param frozen - modules of which the code that runs is evaluated again, not the newest.
   * @throws what their code throws, and `StillEvaluating` when `signal` is aborted before they have ended.
   */
  async stage(
    invalid: ReadonlySet<string>,
    roots: readonly string[],
    frozen: ReadonlySet<string> = new Set(),
    signal?: AbortSignal
  ): Promise<Stage> {
    const overlay = new Overlay(this.#modules, invalid)
    const contexts: StagedHot = new Map()
    const runner = this.#createRunner(overlay, contexts, frozen)
    const drop = () => {
      for (const [id, record] of overlay) this.#relink(id, record.imports, this.#record(id)?.imports)
    }
    const evaluation = (async () => {
      for (const id of roots) {
        if (signal?.aborted) return
        await runner.executeId(id)
      }
    })()
    try {
      await orGiveUp(evaluation, overlay, signal)
    } catch (error) {
      drop()
      // One that was given up may go on, and link itself to what runs.
      evaluation.catch(() => {}).finally(drop)
      importChains.set(Object(error), chainIn(overlay))
      throw error
    }
    let undo: (() => void)[] = []
    const unused = this.#unusedAfter(overlay, invalid)
    return {
      unused,
      exports: id => (overlay.has(id) ? (overlay.getByModuleId(id).exports as Exports) : undefined),
      drop,
      commit: () => {
        undo = [this.hot.replace(contexts, [...overlay.keys(), ...unused]), ...this.#replace(overlay, invalid, unused)]
        // From now on the new code's late `import()` finds what everybody finds.
        runner.moduleCache = this.#modules
      },
      revert: () => {
        for (const step of undo.toReversed()) step()
      }
    }
  }

  /** The modules that nothing imports once the overlay is in place, by what Vite read in the sources. */
  #unusedAfter(overlay: Overlay, invalid: ReadonlySet<string>): string[] {
    const unused = new Set<string>()
    const isUnused = (id: string) => {
      if (overlay.has(id) || unused.has(id) || this.#record(id)?.code === undefined) return false
      const node = this.#env.moduleGraph.getModuleById(id)
      // An import that is not reached yet (`import()`) is no record of ours, but Vite knows it.
      const importers = node
        ? [...node.importers].map(other => normalizeModuleId(other.id ?? other.url))
        : this.importers(id)
      return importers.every(other => unused.has(other) || (invalid.has(other) && !overlay.has(other)))
    }
    const queue = [...invalid].flatMap(id => [id, ...this.imports(id)])
    for (const id of queue) {
      if (!isUnused(id)) continue
      unused.add(id)
      queue.push(...this.imports(id))
    }
    return [...unused]
  }

  #replace(overlay: Overlay, invalid: ReadonlySet<string>, unused: string[]): (() => void)[] {
    const undo: (() => void)[] = []
    const put = (id: string, next: Next) => {
      const old = this.#record(id)
      this.#relink(id, old?.imports, next?.imports)
      if (next) this.#modules.setByModuleId(id, next)
      else this.#modules.deleteByModuleId(id)
      undo.push(() => {
        this.#relink(id, next?.imports, old?.imports)
        if (old) this.#modules.setByModuleId(id, old)
        else this.#modules.deleteByModuleId(id)
      })
      if (next?.exports) undo.push(this.#live.replace(id, old?.exports, next.exports))
    }
    // What the new code does not import, or not yet: an `import()` of it evaluates the newest.
    for (const id of new Set([...invalid, ...unused])) if (!overlay.has(id)) put(id, undefined)
    for (const [id, next] of overlay) {
      for (const importer of this.#record(id)?.importers ?? [])
        if (!invalid.has(importer)) next.importers?.add(importer)
      put(id, next)
    }
    return undo
  }

  #relink(id: string, from: Iterable<string> = [], to: Iterable<string> = []): void {
    const old = new Set([...from].map(normalizeModuleId))
    const next = new Set([...to].map(normalizeModuleId))
    for (const dep of old) if (!next.has(dep)) this.#record(dep)?.importers?.delete(id)
    for (const dep of next) if (!old.has(dep)) this.#record(dep)?.importers?.add(id)
  }

  #record(id: string): ModuleRecord | undefined {
    return this.#modules.has(id) ? this.#modules.getByModuleId(id) : undefined
  }

  #createRunner(moduleCache: ModuleCacheMap, contexts?: StagedHot, frozen?: ReadonlySet<string>): ViteNodeRunner {
    const { root, base } = this.#env.config
    return new Runner({
      options: {
        root,
        base,
        moduleCache,
        createHotContext: (_, id) => this.hot.create(id, contexts),
        // The dev server may watch a file for it from now on, and an `import()` may come from inside a boundary.
        resolveId: (id, importer) => outside(() => this.#resolve(id, importer)),
        fetchModule: id =>
          outside(() => (frozen?.has(normalizeModuleId(id)) ? this.#fetchRunning(id) : this.#fetch(id)))
      },
      evaluated: (file, exports) => {
        for (const [, value] of names(exports)) {
          if (isReference(value) && !this.#definers.has(value)) this.#definers.set(value, file)
        }
      },
      builtin: specifier => this.#ledger.builtin(specifier),
      env: { ...this.#env.config.env, SSR: true },
      nameScript: (file, code, exports) => {
        const { name, version } = nameScript(file, this.#maps.get(code))
        const map = this.#maps.get(code)
        this.#maps.delete(code)
        this.#scripts.set(exports, { file, version })
        if (!this.#order.has(file)) this.#order.set(file, this.#order.size)
        this.#versions.set(file, (this.#versions.get(file) ?? new Set()).add(version))
        // A debugger finds the source through the code itself; without one that is only work.
        return { name, code: map && inspectorUrl() ? `${code}\n//# sourceMappingURL=${mapUrl(map)}` : code }
      }
    })
  }

  async #resolve(id: string, importer?: string) {
    const resolved = await this.#env.pluginContainer.resolveId(id, importer)
    // An alias always leads somewhere, and says so when nothing is there.
    const path = resolved ? resolved.meta?.['vite:alias']?.noResolved && resolved.id : id
    if (path && (path.startsWith('.') || isAbsolute(path))) {
      this.#options.onUnresolved?.(path.startsWith('.') && importer ? join(dirname(importer), path) : path)
    }
    return resolved
  }

  /** The code that runs, for a file whose newest content does not. */
  async #fetchRunning(id: string): Promise<{ code: string }> {
    const { code = '', exports } = this.#record(normalizeModuleId(id)) ?? {}
    this.#maps.set(code, scriptMap(scriptName(normalizeModuleId(id), this.version(exports))))
    return { code }
  }

  async #fetch(id: string): Promise<{ externalize: string } | { code: string }> {
    const externalize = await shouldExternalize(id, this.#options, this.#external)
    if (externalize) return { externalize }
    const result = await this.#env.transformRequest(id)
    if (!result) throw new Error(`cannot load "${id}"`)
    // vite-node hands on nothing but the code, so the code is what its map is kept under until it runs.
    this.#maps.set(
      result.code,
      result.map && 'version' in result.map ? (result.map as unknown as SourceMap) : undefined
    )
    return { code: result.code }
  }
}

/** The exports that can be read; one that a cycle has not reached yet cannot. */
function names(exports: Exports): [name: string, value: unknown][] {
  return Object.keys(exports).map(name => [name, read(exports, name)])
}

/** Whether a value is an object or a function, which a WeakRef can hold. */
export function isReference(value: unknown): value is object {
  return typeof value === 'function' || (typeof value === 'object' && value !== null)
}

/** The channel of an environment that lives in this process: what the server sends comes out, what we send goes in. */
function channel({ hot }: DevEnvironment): { innerEmitter: EventEmitter; outsideEmitter: EventEmitter } | undefined {
  return hot.api
}

function stripTimestamps(code: string | undefined): string | undefined {
  return code?.replace(/[?&]t=\d+/g, '')
}

function mapUrl(map: SourceMap): string {
  return `data:application/json;base64,${Buffer.from(JSON.stringify(map)).toString('base64')}`
}
