/**
 * `import.meta.hot` for the harness' modules, as in Vite (https://vite.dev/guide/api-hmr), with one improvement: `dispose`
 * runs only when the new version has been staged, so a broken save disposes nothing.
 */
import type { ViteHotContext } from 'vite/types/hot.js'
import type { Exports } from './host.ts'

type Callback = (payload: unknown) => void

/** What one version of a module asked for. */
interface Hot {
  accepted: { deps: string[]; callback: (modules: (Exports | undefined)[]) => void }[]
  disposers: Callback[]
  pruners: Callback[]
  listeners: Map<string, Set<Callback>>
}

/** What a hot context needs of its surroundings. */
export interface HotHost {
  /** The id of the module that is served under a url. */
  idOf(url: string): string
  /** A module cannot handle its update: its importers have to. */
  invalidate(id: string, message: string | undefined): void
  /** Sends a custom event to the dev server. */
  send(event: string, data: unknown): void
}

/** The hot contexts of the running modules. */
export class HotModules {
  readonly #host: HotHost
  readonly #running = new Map<string, Hot>()
  /** Lives longer than the versions of a module, and goes when it is pruned. */
  readonly #data = new Map<string, object>()

  constructor(host: HotHost) {
    this.#host = host
  }

  /** The context of a module that is being evaluated; `into` holds it until the evaluation is in place. */
  create(id: string, into: Map<string, Hot> = this.#running): ViteHotContext {
    const hot: Hot = { accepted: [], disposers: [], pruners: [], listeners: new Map() }
    into.set(id, hot)
    const accept = (deps: unknown, callback: unknown) => {
      const [ids, hand] = typeof deps === 'function' || deps === undefined ? [[id], deps] : [[deps].flat(), callback]
      const single = !Array.isArray(deps)
      const call = typeof hand === 'function' ? hand : () => {}
      hot.accepted.push({ deps: ids as string[], callback: modules => void call(single ? modules[0] : modules) })
    }
    const data = this.#dataOf(id)
    const context = {
      data,
      accept,
      // As in Vite without `experimental.hmrPartialAccept`: the importers decide.
      acceptExports: () => {},
      decline: () => {},
      dispose: (callback: Callback) => void hot.disposers.push(callback),
      prune: (callback: Callback) => void hot.pruners.push(callback),
      invalidate: (message?: string) => {
        const payload = { path: id, message, firstInvalidatedBy: id }
        this.emit('vite:invalidate', payload)
        this.#host.invalidate(id, message)
      },
      on: (event: string, callback: Callback) => void listeners(hot, event).add(callback),
      off: (event: string, callback: Callback) => void listeners(hot, event).delete(callback),
      send: (event: string, payload?: unknown) => this.#host.send(event, payload)
    }
    // The overloads of `accept` are Vite's; one function serves them all.
    return context as unknown as ViteHotContext
  }

  /** Whether `importer` takes a new version of `dep` by itself; a module that accepts itself is both. */
  accepts(importer: string, dep: string): boolean {
    return this.#callbacks(importer, dep).length > 0
  }

  /** What hands the new version of `dep` to `importer`, as the version of it wants that runs now; returns what it threw. */
  handOver(importer: string, dep: string, exports: () => Exports | undefined): () => unknown[] {
    const accepting = this.#callbacks(importer, dep)
    return () =>
      runAll(
        accepting.map(({ deps, callback }) => () => {
          callback(deps.map(other => (this.#idOf(other) === dep ? exports() : undefined)))
        })
      )
  }

  /** Whether any of these modules has asked to be told of its end. */
  hasDisposers(ids: Iterable<string>): boolean {
    return [...ids].some(id => (this.#running.get(id)?.disposers.length ?? 0) > 0)
  }

  /** Runs the `dispose` callbacks of versions that are about to be replaced. Returns what they threw. */
  dispose(ids: Iterable<string>): unknown[] {
    return [...ids].flatMap(id => runAll(this.#running.get(id)?.disposers ?? [], this.#dataOf(id)))
  }

  /** What runs the `prune` callbacks of modules that will be imported no more, and forgets their data. */
  pruner(ids: readonly string[]): () => unknown[] {
    const pruned = ids.map(id => [id, this.#running.get(id)?.pruners ?? []] as const)
    return () =>
      pruned.flatMap(([id, pruners]) => {
        const data = this.#dataOf(id)
        this.#data.delete(id)
        return runAll(pruners, data)
      })
  }

  /** Puts the contexts of new versions in the place of those in `replaced`. Returns how to undo it. */
  replace(staged: ReadonlyMap<string, Hot>, replaced: Iterable<string>): () => void {
    const old = new Map(this.#running)
    for (const id of replaced) this.#running.delete(id)
    for (const [id, hot] of staged) this.#running.set(id, hot)
    return () => {
      this.#running.clear()
      for (const [id, hot] of old) this.#running.set(id, hot)
    }
  }

  /** Tells every module that listens of an event, Vite's or a custom one. Returns what the listeners threw. */
  emit(event: string, payload: unknown): unknown[] {
    return [...this.#running.values()].flatMap(hot => runAll([...(hot.listeners.get(event) ?? [])], payload))
  }

  #callbacks(importer: string, dep: string): Hot['accepted'] {
    const accepted = this.#running.get(importer)?.accepted ?? []
    return accepted.filter(({ deps }) => deps.some(other => this.#idOf(other) === dep))
  }

  #idOf(dep: string): string {
    return this.#running.has(dep) ? dep : this.#host.idOf(dep)
  }

  #dataOf(id: string): object {
    const data = this.#data.get(id) ?? {}
    this.#data.set(id, data)
    return data
  }
}

/** Contexts of versions that are not in place yet. */
export type StagedHot = Map<string, Hot>

function listeners(hot: Hot, event: string): Set<Callback> {
  const known = hot.listeners.get(event) ?? new Set()
  hot.listeners.set(event, known)
  return known
}

/** Calls every function, also after one threw. */
function runAll(callbacks: Callback[], payload?: unknown): unknown[] {
  const thrown: unknown[] = []
  for (const callback of callbacks) {
    try {
      callback(payload)
    } catch (error) {
      thrown.push(error)
    }
  }
  return thrown
}
