/**
 * The loaders of a harness: the modules of their rows are ours, so that they reload like every provider, and what we take
 * down for a reload is not written into the user's file as if the user had switched it off.
 */
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { normalizePath } from 'vite'
import type { Context, Fiber } from '../cordis/cordis.ts'
import type { Fibers } from '../cordis/fibers.ts'
import type { Host } from '../modules/host.ts'
import type { Running } from '../reload/running.ts'
import { type Entry, type FileTree, isFileTree, type Loader, type Tree } from '../cordis/loader.ts'

/** A running harness, with what its loaders have applied. */
export interface RunningRows extends Running {
  rows: Rows
}

const original = Symbol.for('cordis.original')

/** It would reload everything a second time. */
const HMR = /^(@[^/]+\/)?(cordis-)?plugin-hmr$/

/** What the rows of a harness need of it, and tell it. */
export interface RowsOptions {
  host: Host
  /** The folder that relative names are looked up in where the loader knows none. */
  folder: string
  /** Whether a reload takes things down and up, or the harness ends. */
  isReloading(): boolean
  /** A row's module could not be loaded. */
  failed(error: unknown): void
  note(message: string): void
}

/** The rows of every loader of one harness. */
export class Rows {
  readonly #options: RowsOptions
  readonly #loaders = new Set<Loader>()
  /** The module of each name, by folder and name. */
  readonly #modules = new Map<string, string>()
  /** Why a row has no module, in the same way. */
  readonly #errors = new Map<string, unknown>()
  /** One at a time: two that evaluate what neither has found would evaluate it twice. */
  #importing: Promise<unknown> = Promise.resolve()
  #imports = 0

  constructor(options: RowsOptions) {
    this.#options = options
  }

  /** From now on a loader that appears is taken note of, before it has imported anything. */
  attach(root: Context): void {
    const traced = root.reflect as Context['reflect'] & { [original]?: Context['reflect'] }
    const reflect = traced[original] ?? traced
    const { provide } = reflect
    const adopt = (loader: Loader) => this.#adopt(loader)
    reflect.provide = function (name, value, ...rest) {
      if (name === 'loader' && isLoader(value)) adopt(value)
      return provide.call(this, name, value, ...rest)
    }
    this.#keepFiles(root)
  }

  /** Whether a loader runs. */
  areThere(): boolean {
    return this.#running().length > 0
  }

  /** Every row. */
  entries(): Entry[] {
    return this.#running().flatMap(loader => [...loader.entries()])
  }

  /** The files whose rows run, by path. */
  files(): Map<string, FileTree> {
    const trees = this.entries().flatMap(({ subtree }) => (isFileTree(subtree) ? [subtree] : []))
    return new Map(trees.map(tree => [normalizePath(tree.filename), tree]))
  }

  /** The file that a row is in. */
  fileOf(tree: Tree): string | undefined {
    return isFileTree(tree) ? normalizePath(tree.filename) : undefined
  }

  /** Rows that should run and do not, since their module could not be loaded. */
  failed(): Entry[] {
    return this.entries().filter(entry => !entry.disabled && !entry.fiber)
  }

  /** Tries those again that are in no file, whose save would do so. */
  async retry(): Promise<void> {
    for (const entry of this.failed()) {
      if (this.fileOf(entry.parent.tree) !== undefined) continue
      await entry.refresh()
      if (entry.fiber) this.#options.note(`added ${entry.options.id}`)
    }
  }

  /** Why a row's module could not be loaded. */
  errorOf({ parent: { tree }, options: { name } }: Entry): unknown {
    return this.#errors.get(keyOf(name, tree.ctx.baseUrl))
  }

  /** The module of a row. */
  moduleOf({ parent: { tree }, options: { name } }: Entry): string | undefined {
    return this.#modules.get(keyOf(name, tree.ctx.baseUrl))
  }

  /** The module of a name in a file, if it was loaded. */
  moduleFor(name: string, { ctx: { baseUrl } }: FileTree): string | undefined {
    return this.#modules.get(keyOf(name, baseUrl))
  }

  /** Whether a row asks for a module: then it is used although no module imports it. */
  asksFor(id: string): boolean {
    return this.entries().some(entry => this.moduleOf(entry) === id)
  }

  /** Imports the module that a row of a tree would be given. */
  load(name: string, { ctx: { baseUrl } }: FileTree): Promise<unknown> {
    return this.#import(name, baseUrl)
  }

  /** Resolves when no row is being imported, and nothing loads or unloads. */
  async settled(fibers: Fibers): Promise<void> {
    await fibers.settled()
    for (let seen = 0, now = -1; seen !== now;) {
      seen = this.#imports
      await this.#importing
      for (const loader of this.#running()) await loader.await()
      await fibers.settled()
      now = this.#imports
    }
  }

  /** What a row's module exports as its plugin, as its loader sees it. */
  unwrap(exports: unknown): unknown {
    return this.#running()[0]?.unwrapExports(exports)
  }

  #running(): Loader[] {
    for (const loader of this.#loaders) if (loader.ctx.fiber.uid === null) this.#loaders.delete(loader)
    return [...this.#loaders]
  }

  #adopt(loader: Loader): void {
    this.#loaders.add(loader)
    loader.internal = { import: (name, base) => this.#import(name, base) }
    // Behind the loader's own, which it adds next.
    queueMicrotask(() => {
      if (loader.ctx.fiber.uid !== null) loader.ctx.on('internal/plugin', unshadow, { global: true })
    })
  }

  /**
   * A loader takes the end of a row's fiber for the user's wish, unless the row is switched off: while that is asked about
   * a fiber that ends for a reload, it is.
   */
  #keepFiles(root: Context): void {
    const listener = (fiber: Fiber) => {
      const entry = fiber.uid === null && this.#options.isReloading() ? fiber.entry : undefined
      if (entry) Object.defineProperty(entry, 'disabled', { value: true, configurable: true })
    }
    root.on('internal/plugin', listener, { global: true, prepend: true })
  }

  #import(name: string, base: string | undefined): Promise<unknown> {
    this.#imports++
    const next = this.#importing.then(() => this.#load(name, base))
    this.#importing = next.catch(() => {})
    return next
  }

  async #load(name: string, base: string | undefined): Promise<unknown> {
    if (HMR.test(name)) {
      this.#options.note(`the row of ${name} is left out: what it would reload is reloaded here`)
      return { name: 'hmr', apply() {} }
    }
    const { host, folder } = this.#options
    const key = keyOf(name, base)
    const importer = join(base ? fileURLToPath(base) : folder, 'cordis.yml')
    const id = name.startsWith('file:') ? normalizePath(fileURLToPath(name)) : name
    try {
      const { module, exports } = await host.ask(id, normalizePath(importer))
      this.#modules.set(key, module)
      this.#errors.delete(key)
      return exports
    } catch (error) {
      this.#errors.set(key, error)
      this.#options.failed(error)
      throw error
    }
  }
}

function unshadow(fiber: Fiber): void {
  const entry = fiber.uid === null ? fiber.entry : undefined
  if (entry) Reflect.deleteProperty(entry, 'disabled')
}

function isLoader(value: unknown): value is Loader {
  const { entries, create, store } = (value ?? {}) as Partial<Loader>
  return typeof entries === 'function' && typeof create === 'function' && typeof store === 'object'
}

function keyOf(name: string, base: string | undefined): string {
  return `${base ?? ''}\0${name}`
}
