/**
 * The harness' modules, evaluated by vite-node: import, the import graph, and staging, which evaluates new versions beside
 * the running ones and then either puts them in their place or forgets them.
 */
import type { EventEmitter } from 'node:events'
import { url as inspectorUrl } from 'node:inspector'
import { relative } from 'node:path'
import type { DevEnvironment, HotPayload } from 'vite'
import { ModuleCacheMap, type ViteNodeRunner } from 'vite-node/client'
import { cleanUrl, normalizeModuleId, toFilePath } from 'vite-node/utils'
import { Loading, orGiveUp, type Patience, StillEvaluating } from './evaluating.ts'
import { read } from '../guard/contain.ts'
import { HotModules, type StagedHot } from './hot.ts'
import { type Exports, isReference } from './exports.ts'
import { LiveExports } from './live-exports.ts'
import { outside } from '../guard/outside.ts'
import { chainIn, Overlay } from './overlay.ts'
import { changedOf, type NodeFiles, nodeFilesOf } from './node-files.ts'
import { keptByNode, requireAnew } from './required.ts'
import { Runner } from './runner.ts'
import { note } from '../report/describe.ts'
import { nameScript, replaceMap, scriptMap, scriptName } from '../report/script.ts'
import { signatureOf } from './signature.ts'
import { type SourceMap, Sources, type SourcesOptions } from './sources.ts'
import { forget, type InPlace, names, putInPlace, record, unusedAfter } from './staging.ts'

/** New versions of some modules, evaluated and not yet in place. */
export interface Stage {
  /** Modules that nothing imports any more. */
  unused: string[]
  /** The new exports of a module; `undefined` when the new code does not import it any more. */
  exports(id: string): Exports | undefined
  /** Puts the new versions in place; importers that were left as they are see the new exports. */
  commit(): void
  /** Undoes `commit` at once, then disposes the new versions (`import.meta.hot`); resolves with what that threw. */
  revert(): Promise<unknown[]>
  /** The same for a stage that is not in place: forgets the new versions, then disposes them. */
  drop(): Promise<unknown[]>
}

/** What a host asks of its surroundings, and tells them. */
export interface HostOptions extends SourcesOptions {
  /** What a module gets for a builtin specifier; `undefined` where the builtin itself will do. */
  builtin?: (specifier: string) => Exports | undefined
  /** How long, in milliseconds, the callbacks of `import.meta.hot` may take. */
  deadline: number
  /** These modules have to be replaced: one that they import has called `import.meta.hot.invalidate()`. */
  onInvalidate?: (ids: string[]) => void
  /** Whether somebody who is no module uses one: a row of a configuration file. */
  isAskedFor?: (id: string) => boolean
  /** A listener of `import.meta.hot`, or a callback that belongs to no reload, has thrown. */
  onError?: (error: unknown) => void
}

/** What is known of the evaluation that gave an exports object. */
interface Evaluation {
  file: string
  version: number
  signature?: string
  nodeFiles: NodeFiles
}

/** Runs the modules of one harness in one Vite environment. */
export class Host {
  readonly #env: DevEnvironment
  readonly #loading = new Loading()
  readonly #options: HostOptions
  readonly #sources: Sources
  readonly #evaluations = new WeakMap<Exports, Evaluation>()
  readonly #definers = new WeakMap<object, string>()
  /** By file. Several hosts of one process count together, so that no two evaluations of a file have the same number. */
  readonly #versions = new Map<string, Set<number>>()
  /** Files that were said to be kept by Node. */
  readonly #told = new Set<string>()
  readonly #modules = new ModuleCacheMap()
  readonly #place: InPlace
  /** `import.meta.hot` of the running modules. */
  readonly hot: HotModules
  readonly #runner: ViteNodeRunner

  constructor(env: DevEnvironment, options: HostOptions) {
    this.#env = env
    this.#options = options
    this.#sources = new Sources(env, options)
    this.#place = {
      modules: this.#modules,
      live: new LiveExports(),
      importers: id => this.#sources.importers(id),
      isAskedFor: id => options.isAskedFor?.(id) ?? false
    }
    this.hot = new HotModules({
      deadline: options.deadline,
      idOf: url => normalizeModuleId(env.moduleGraph.urlToModuleMap.get(url)?.id ?? url),
      invalidate: id => options.onInvalidate?.(this.importers(id)),
      send: (event, data) => channel(env)?.innerEmitter.emit(event, data, { send: env.hot.send.bind(env.hot) }),
      failed: error => options.onError?.(error)
    })
    channel(env)?.outsideEmitter.on('send', this.#receive)
    this.#runner = this.#createRunner(this.#modules)
  }

  /** Stops listening to the dev server, and disposes every module that runs. */
  async close(): Promise<void> {
    channel(this.#env)?.outsideEmitter.off('send', this.#receive)
    for (const error of await this.hot.disposeAll()) this.#options.onError?.(error)
  }

  readonly #receive = (payload: HotPayload) => {
    if (payload.type === 'custom') this.hot.emit(payload.event, payload.data)
  }

  /** Imports a module by file or specifier, as if `importer` had written it. */
  async import(id: string, importer?: string, patience: Patience = {}): Promise<Exports> {
    const resolved = importer === undefined ? id : ((await this.#env.pluginContainer.resolveId(id, importer))?.id ?? id)
    return orGiveUp(this.#runner.executeId(resolved), this.#modules, this.#loading, patience)
  }

  /** Whether an import of `name` from `importer` would lead anywhere. */
  async finds(name: string, importer: string): Promise<boolean> {
    return (await this.#env.pluginContainer.resolveId(name, importer)) !== null
  }

  /** Imports a module for somebody who is no module. Nothing is left of one that fails: the next time it is tried again. */
  async ask(name: string, importer: string): Promise<{ module: string; exports: Exports }> {
    const module = normalizeModuleId((await this.#sources.resolve(name, importer))?.id ?? name)
    const running = this.exports(module)
    if (running) return { module, exports: running }
    const stage = await this.stage(new Set(), [module], new Set(), { ms: this.#options.deadline })
    stage.commit()
    return { module, exports: this.exports(module)! }
  }

  /**
   * The running modules that are made from a file: itself, with queries, with other ids that a plugin gave it, and those
   * whose transform has asked to watch it (`addWatchFile`).
   */
  modulesOf(file: string): string[] {
    const ids = this.#sources.modulesOf(file, id => this.#modules.has(id))
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
    return [...this.#modules.values()].flatMap(({ exports }) => (exports && this.#evaluations.get(exports)) ?? [])
  }

  /** Every module that is evaluated here, in the order in which it was first asked for; externals are not among them. */
  modules(): string[] {
    return [...this.#modules.keys()].filter(id => this.#modules.getByModuleId(id).code !== undefined)
  }

  /** The files of the modules that are evaluated here. */
  files(): string[] {
    return [...this.#versions.keys()]
  }

  /** Modules in the order in which an import of `entry` comes to them: with cycles, another order gives another result. */
  inOrder(ids: Iterable<string>, entry: string): string[] {
    const missing = new Set(ids)
    // One has no order to look for.
    if (missing.size === 1) return [...missing]
    const found: string[] = []
    const seen = new Set<string>()
    for (const stack = [entry]; stack.length > 0 && missing.size > 0;) {
      const id = stack.pop()!
      if (seen.has(id)) continue
      seen.add(id)
      if (missing.delete(id)) found.push(id)
      stack.push(...this.imports(id).toReversed())
    }
    return [...found, ...missing]
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

  /** The module that defines a plugin; a module that is one itself (`export function apply`) defines that. */
  definer(plugin: unknown): string | undefined {
    const part = this.#definers.has(Object(plugin)) ? plugin : read(plugin, 'apply')
    return this.#definers.get(Object(part))
  }

  /** How often the module's file was evaluated when its running version was: its generation. */
  version(exports: Exports | undefined): number {
    return (exports && this.#evaluations.get(exports)?.version) ?? 0
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

  /** Makes Vite read a file again. */
  invalidate(file: string): void {
    this.#sources.invalidate(file)
  }

  /** The same for a module that is not saved, but named. */
  invalidateModule(id: string): void {
    this.#sources.invalidateModule(id)
  }

  /** Whether a module's newest code differs from what runs. Code that does not transform differs: staging it says why. */
  async isChanged(id: string): Promise<boolean> {
    const result = await this.#sources.transform(id).catch(() => undefined)
    const { code, exports } = this.#modules.getByModuleId(id)
    if (!result || stripTimestamps(result.code) !== stripTimestamps(code)) return true
    const evaluation = exports && this.#evaluations.get(exports as Exports)
    if (evaluation && changedOf(evaluation.nodeFiles).size > 0) return true
    if (evaluation) {
      const { map, signature } = this.#sources.originOf(result)
      // The text may be another one all the same: lines that only moved, a type.
      replaceMap(scriptName(evaluation.file, evaluation.version), map)
      evaluation.signature = signature
    }
    return false
  }

  /** The importers of a module whose file is gone, when they all find another one in its place: `p.ts` became `p.tsx`. */
  async findersOfNext(id: string): Promise<string[]> {
    const importers = this.importers(id)
    return (await this.#sources.isFoundElsewhere(cleanUrl(id), importers)) ? importers : []
  }

  /** Whether the file of a running module was written since it was read for what runs. */
  isStale(id: string): boolean {
    const exports = this.exports(id)
    const { file, signature, nodeFiles } = (exports && this.#evaluations.get(exports)) ?? {}
    if (nodeFiles && changedOf(nodeFiles).size > 0) return true
    const now = signature === undefined ? undefined : signatureOf(file!)
    return now !== undefined && now !== signature
  }

  #tellKept(files: Iterable<string>): void {
    for (const file of keptByNode(files)) {
      if (this.#told.has(file)) continue
      this.#told.add(file)
      const what = `"${relative(this.#env.config.root, file)}" is required, and Node keeps an ES module that was required`
      this.#options.onError?.(
        new Error(`${what}: its newest content does not run. Import it, or restart the dev server`)
      )
    }
  }

  /** What has changed of the files that Node has loaded for modules which are evaluated again. */
  #changedNodeFiles(ids: Iterable<string>): Set<string> {
    const evaluations = [...ids].flatMap(id => this.#evaluations.get(this.exports(id) ?? {}) ?? [])
    return changedOf(new Map(evaluations.flatMap(({ nodeFiles }) => [...nodeFiles])))
  }

  /**
   * Evaluates new versions of `invalid` beside the running ones by importing `roots`.
   * @param frozen - modules of which the code that runs is evaluated again, not the newest.
   * @throws what their code throws, and `StillEvaluating` when patience ends before they have.
   */
  async stage(
    invalid: ReadonlySet<string>,
    roots: readonly string[],
    frozen: ReadonlySet<string> = new Set(),
    patience: Patience = {}
  ): Promise<Stage> {
    const overlay = new Overlay(this.#modules, invalid)
    const contexts: StagedHot = new Map()
    const runner = this.#createRunner(overlay, contexts, frozen)
    const required = this.#changedNodeFiles([...invalid].filter(id => !frozen.has(id)))
    this.#tellKept(required)
    const requireOld = requireAnew(required)
    const drop = () => {
      requireOld()
      forget(overlay, this.#modules)
      return this.hot.disposeStaged(contexts)
    }
    const evaluation = evaluateAll(runner, roots, patience)
    try {
      await orGiveUp(evaluation, overlay, this.#loading, patience)
    } catch (error) {
      // Not awaited: what a version that never ran has to undo is no reason to keep the next save waiting.
      const dropped = () => void drop().then(thrown => thrown.forEach(error => this.#options.onError?.(error)))
      dropped()
      // One that was given up goes on: what it has linked and asked for by its end is undone once more.
      if (error instanceof StillEvaluating) void evaluation.catch(() => {}).then(dropped)
      note(error, { imports: chainIn(overlay) })
      throw error
    }
    let undo: (() => void)[] = []
    const unused = unusedAfter(overlay, invalid, this.#place)
    return {
      unused,
      exports: id => (overlay.has(id) ? (overlay.getByModuleId(id).exports as Exports) : undefined),
      drop,
      commit: () => {
        undo = [
          this.hot.replace(contexts, [...overlay.keys(), ...unused]),
          ...putInPlace(overlay, invalid, unused, this.#place)
        ]
        // From now on the new code's late `import()` finds what everybody finds.
        runner.moduleCache = this.#modules
      },
      revert: () => {
        requireOld()
        for (const step of undo.toReversed()) step()
        return this.hot.disposeStaged(contexts)
      }
    }
  }

  #load<T>(load: () => Promise<T>): Promise<T> {
    return outside(() => this.#loading.during(load))
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
        resolveId: (id, importer) => this.#load(() => this.#sources.resolve(id, importer)),
        fetchModule: id =>
          this.#load<{ externalize: string } | { code: string }>(() =>
            frozen?.has(this.#moduleOf(id)) ? this.#fetchRunning(id) : this.#sources.fetch(id)
          )
      },
      evaluated: (file, exports) => {
        for (const [, value] of names(exports)) {
          if (isReference(value) && !this.#definers.has(value)) this.#definers.set(value, file)
        }
      },
      builtin: specifier => this.#options.builtin?.(specifier),
      env: { ...this.#env.config.env, SSR: true },
      nameScript: (file, code, exports) => {
        const { map, signature, nodeFiles = nodeFilesOf(file, code) } = this.#sources.take(code)
        const { name, version } = nameScript(file, map)
        this.#evaluations.set(exports, { file, version, signature, nodeFiles })
        this.#versions.set(file, (this.#versions.get(file) ?? new Set()).add(version))
        // A debugger finds the source through the code itself; without one that is only work.
        return { name, code: map && inspectorUrl() ? `${code}\n//# sourceMappingURL=${mapUrl(map)}` : code }
      }
    })
  }

  /** The module that an id stands for; in the code it is written from the root. */
  #moduleOf(id: string): string {
    return normalizeModuleId(toFilePath(id, this.#env.config.root).path)
  }

  /** The code that runs, for a file whose newest content does not. */
  async #fetchRunning(id: string): Promise<{ code: string }> {
    const { code = '', exports } = record(this.#modules, this.#moduleOf(id)) ?? {}
    const running = exports && this.#evaluations.get(exports as Exports)
    const map = running && scriptMap(scriptName(running.file, running.version))
    const { signature, nodeFiles } = running ?? {}
    return { code: this.#sources.note(code, { map, signature, nodeFiles }) }
  }
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

async function evaluateAll(runner: ViteNodeRunner, roots: readonly string[], { signal }: Patience): Promise<void> {
  for (const id of roots) {
    if (signal?.aborted) return
    await runner.executeId(id)
  }
}
