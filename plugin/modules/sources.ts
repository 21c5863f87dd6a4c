/** What Vite makes of the harness' files, always from what is on disk: code, source maps, and where imports lead. */
import { existsSync } from 'node:fs'
import { dirname, isAbsolute, join } from 'node:path'
import type { DevEnvironment, TransformResult } from 'vite'
import { shouldExternalize } from 'vite-node/server'
import { cleanUrl, normalizeModuleId, toFilePath } from 'vite-node/utils'
import type { nameScript } from '../report/script.ts'
import type { NodeFiles } from './node-files.ts'
import { signatureOf } from './signature.ts'

export type SourceMap = NonNullable<Parameters<typeof nameScript>[1]>

/** What the code of a module was made from. */
export interface Origin {
  map?: SourceMap
  /** What the file was like before it was read; `undefined` for a module without a file. */
  signature?: string
  /** What Node has loaded for it, where that is not to be looked up again: the code is the one that runs. */
  nodeFiles?: NodeFiles
}

/** Which packages run outside of the host (`external`) though they would be evaluated by it, or the other way round. */
export interface SourcesOptions {
  inline?: (string | RegExp)[]
  external?: (string | RegExp)[]
  /** A module imports a path, absolute or from the root, at which there is nothing. */
  onUnresolved?: (path: string) => void
}

/** The sources of one Vite environment. */
export class Sources {
  readonly #env: DevEnvironment
  readonly #options: SourcesOptions
  readonly #external = new Map<string, Promise<string | false>>()
  readonly #origins = new Map<string, Origin>()
  /** What a result of Vite's, which it keeps, was made from; and the last one of each module. */
  readonly #signatures = new WeakMap<TransformResult, string | undefined>()
  readonly #last = new Map<string, WeakRef<TransformResult>>()

  constructor(env: DevEnvironment, options: SourcesOptions) {
    this.#env = env
    this.#options = options
  }

  /** Where an import leads. */
  async resolve(id: string, importer?: string): ReturnType<DevEnvironment['pluginContainer']['resolveId']> {
    const resolved = await this.#env.pluginContainer.resolveId(id, importer)
    // An alias always leads somewhere, and says so when nothing is there.
    const path = resolved ? resolved.meta?.['vite:alias']?.noResolved && resolved.id : id
    if (path && (path.startsWith('.') || isAbsolute(path))) {
      this.#options.onUnresolved?.(path.startsWith('.') && importer ? join(dirname(importer), path) : path)
    }
    return resolved
  }

  /** The newest code of a module, or the file to leave to Node. */
  async fetch(id: string): Promise<{ externalize: string } | { code: string }> {
    const externalize = await shouldExternalize(id, this.#options, this.#external)
    if (externalize) return { externalize }
    const result = await this.transform(id)
    if (!result) throw new Error(`cannot load "${id}"`)
    return { code: this.note(result.code, this.originOf(result)) }
  }

  /** Keeps what code was made from until it runs: vite-node hands on nothing but the code. */
  note(code: string, origin: Origin): string {
    this.#origins.set(code, origin)
    return code
  }

  /** What the code that is about to run was made from. */
  take(code: string): Origin {
    const origin = this.#origins.get(code)
    this.#origins.delete(code)
    return origin ?? {}
  }

  /** What a result was made from. */
  originOf(result: TransformResult): Origin {
    const map = result.map && 'version' in result.map ? (result.map as unknown as SourceMap) : undefined
    return { map, signature: this.#signatures.get(result) }
  }

  /** Vite's result for a module. It keeps one for as long as nobody has told it of a save; the disk knows better. */
  async transform(id: string): Promise<TransformResult | null> {
    const module = normalizeModuleId(toFilePath(id, this.#env.config.root).path)
    const file = cleanUrl(module)
    const signature = signatureOf(file)
    const last = this.#last.get(module)?.deref()
    if (last && this.#signatures.get(last) !== signature) this.invalidate(file)
    const result = await this.#env.transformRequest(id)
    if (result && !this.#signatures.has(result)) {
      this.#signatures.set(result, signature)
      this.#last.set(module, new WeakRef(result))
    }
    return result
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

  /**
   * The ids that the modules of a file have in Vite; for a file that is no module that runs, but part of some (another
   * plugin's `addWatchFile`), theirs.
   */
  modulesOf(file: string, runs: (id: string) => boolean): Set<string> {
    const ids = new Set([normalizeModuleId(file)])
    const nodes = new Set(this.#env.moduleGraph.getModulesByFile(file))
    for (const node of nodes) {
      const id = node.id === null ? undefined : normalizeModuleId(node.id)
      if (id !== undefined) ids.add(id)
      if (id !== undefined && runs(id)) continue
      for (const importer of node.importers) {
        // Whoever only imports it, and has not got to that yet, is not made of it.
        const { deps = [], dynamicDeps = [] } = importer.transformResult ?? {}
        if (![...deps, ...dynamicDeps].includes(node.url)) nodes.add(importer)
      }
    }
    return ids
  }

  /** The ids of the modules that import `id`, by what Vite read in the sources; `undefined` when it does not know it. */
  importers(id: string): string[] | undefined {
    const node = this.#env.moduleGraph.getModuleById(id)
    return node && [...node.importers].map(other => normalizeModuleId(other.id ?? other.url))
  }

  /** Whether the imports of all `importers` that led to a file which is gone lead to another one now. */
  async isFoundElsewhere(gone: string, importers: readonly string[]): Promise<boolean> {
    if (importers.length === 0 || existsSync(gone)) return false
    const stem = gone.replace(/\.[^./\\]*$/, '')
    for (const importer of importers) {
      // Vite keeps what it resolved, and does not know any more that this module imports the file.
      this.invalidateModule(importer)
      const result = await this.transform(importer).catch(() => null)
      const files = [...(result?.deps ?? []), ...(result?.dynamicDeps ?? [])].map(url =>
        cleanUrl(normalizeModuleId(toFilePath(url, this.#env.config.root).path))
      )
      const isThere = (file: string) => file.startsWith(`${stem}.`) || file.startsWith(`${stem}/`)
      if (!files.some(file => file !== gone && isThere(file) && existsSync(file))) return false
    }
    return true
  }
}
