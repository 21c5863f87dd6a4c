/**
 * Cordis, as far as it is used here. This package must not bring a second copy of it (two copies are two `Context`
 * classes), so its types are written down, and the copy that the harness runs on is found by looking.
 */
import { dirname } from 'node:path'
import type { DevEnvironment } from 'vite'
import type { Host } from '../modules/host.ts'

/** Where Cordis keeps which service name stands for what in a context. */
export const isolate = Symbol.for('cordis.isolate')

/** A Cordis context, as far as it is used here; the same in `cordis` and `@deepseek-ai/cordis`. */
export interface Context {
  root: Context
  fiber: Fiber
  get(service: string): unknown
  [isolate]: Record<string, symbol>
  reflect: {
    provide(name: string, value: unknown, check?: unknown): unknown
    notify(names: string[]): unknown
    store: Record<symbol, Implementation>
  }
  registry: Registry
  logger: {
    exporters: Map<number, unknown>
    exporter(exporter: { export(message: LogMessage): void }): unknown
    error(error: unknown): void
  }
  events: { _hooks: Record<string, { ctx: Context; callback: (...args: unknown[]) => unknown }[] | undefined> }
  emit(event: string, ...args: unknown[]): void
  on(
    event: 'internal/plugin',
    listener: (fiber: Fiber) => void,
    options: { global?: boolean; prepend?: boolean }
  ): unknown
}

/** A service as Cordis keeps it. */
export interface Implementation {
  name: string
  value?: unknown
  fiber: Fiber
}

/** A message of Cordis' logger. */
export interface LogMessage {
  type: string
  name: string
  args: unknown[]
}

interface Runtime {
  name?: string
  callback: Function
  /** The schema of its config. */
  Config?: object
  fibers: Iterable<Fiber>
}

/** What a context's plugins are registered in. */
export interface Registry {
  values(): Iterable<Runtime>
  get(plugin: unknown): Runtime | undefined
  plugin(this: unknown, plugin: unknown, config?: unknown, getOuterStack?: () => string[]): Fiber
}

/** A Cordis fiber: one application of a plugin. */
export interface Fiber {
  uid: number | null
  state: number
  name: string
  parent: Context
  ctx: Context
  config: unknown
  inject: Record<string, unknown>
  runtime: Runtime | null
  store: Record<string, Implementation> | undefined
  _disposables: { length: number; clear(): (() => unknown)[] }
  inertia: Promise<void> | undefined
  /** Its own listeners to `internal/update`, which may take a new config as it runs. */
  _hooks?: Record<string, Iterable<unknown> | undefined>
  /** The row of a loader's that it belongs to: its own, or that of a fiber above it. */
  entry?: { fiber?: Fiber }
  dispose(): Promise<void> | undefined
  await(): Promise<unknown>
  update(config: unknown, noSave?: boolean): unknown
}

/** Cordis' `FiberState`, whose `const enum` cannot be imported without Cordis. */
export const FiberState = { PENDING: 0, LOADING: 1, ACTIVE: 2, FAILED: 3, DISPOSED: 4, UNLOADING: 5 } as const

const PACKAGES = ['cordis', '@deepseek-ai/cordis']

/** Patterns that keep Cordis out of the runner, also where it is a linked workspace package and looks like user code. */
export async function cordisFolders(env: DevEnvironment, entry: string): Promise<RegExp[]> {
  const patterns: RegExp[] = []
  for (const name of PACKAGES) {
    const id = (await env.pluginContainer.resolveId(name, entry))?.id
    if (id?.startsWith('/') || (id && /^[a-z]:/i.test(id))) patterns.push(new RegExp(`^${escape(dirname(id))}/`))
  }
  return patterns
}

/**
 * The `Context` class that the entry and its providers imported; resolved from the entry when none of them did.
 * @throws when they imported two, or when there is none.
 */
export async function findContext(host: Host, entry: string): Promise<new () => Context> {
  const copies = new Map<unknown, string>()
  for (const [id, exports] of host.evaluated()) {
    const { Context, Service, Fiber } = exports
    if (
      typeof Context === 'function' &&
      typeof Service === 'function' &&
      typeof Fiber === 'function' &&
      !copies.has(Context)
    )
      copies.set(Context, id)
  }
  if (copies.size > 1) {
    throw new Error(
      `two copies of cordis are loaded: ${[...copies.values()].join(' and ')}. Their contexts do not work together: keep one, e.g. with \`npm dedupe\``
    )
  }
  for (const Context of copies.keys()) return Context as new () => Context
  let found = 'cannot find cordis'
  // Where both are installed: packages that were imported are written for one of them.
  const isOfDeepSeek = [...host.evaluated()].some(([id]) => id.includes('/@deepseek-ai/'))
  for (const name of isOfDeepSeek ? PACKAGES.toReversed() : PACKAGES) {
    const exports = await host.import(name, entry).catch(() => undefined)
    if (typeof exports?.['Context'] !== 'function') continue
    if (typeof exports['Fiber'] === 'function') return exports['Context'] as new () => Context
    // What `npm install cordis` still gives.
    found = `"${name}" is older than Cordis 4`
  }
  throw new Error(`entry "${entry}": ${found}. Install it beside the entry: npm install cordis@4.0.0-rc.10`)
}

/**
 * Looks once whether all is there that a reload relies on beyond Cordis' documented interface.
 * @throws an error that names what is missing: a reload would find out in the middle.
 */
export function assertInternals(root: Context): void {
  const { fiber, registry, reflect, logger, events } = root
  const needed: Record<string, boolean> = {
    'registry.plugin()': typeof registry?.plugin === 'function',
    'registry.values()': typeof registry?.values === 'function',
    'reflect.store': typeof reflect?.store === 'object',
    'reflect.notify()': typeof reflect?.notify === 'function',
    'context[cordis.isolate]': typeof root[isolate] === 'object',
    'logger.exporters': logger?.exporters instanceof Map,
    'events._hooks': typeof events?._hooks === 'object',
    'fiber.await()': typeof fiber?.await === 'function',
    'fiber.dispose()': typeof fiber?.dispose === 'function',
    'fiber.update()': typeof fiber?.update === 'function',
    'fiber._disposables.clear()': typeof fiber?._disposables?.clear === 'function'
  }
  const missing = Object.keys(needed).filter(name => !needed[name])
  if (missing.length === 0) return
  throw new Error(
    `this version of Cordis has no ${missing.join(', ')}. Install one that is supported: npm install cordis@4.0.0-rc.10`
  )
}

function escape(text: string): string {
  return text.replace(/[.*+?^${}()|[\]\\]/g, '\\$&')
}
