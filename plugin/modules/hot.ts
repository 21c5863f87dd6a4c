/**
 * `import.meta.hot` for the harness' modules, as in Vite (https://vite.dev/guide/api-hmr), with two improvements: `dispose`
 * runs only when the new version has been staged, so a broken save disposes nothing; and it runs forevery version that
 * goes, also for one that was staged and then dropped and for those that run when the harness ends.
 */
import { basename } from 'node:path'
import type { ViteHotContext } from 'vite/types/hot.js'
import { now } from '../guard/clock.ts'
import type { Exports } from './exports.ts'
import { within } from '../guard/within.ts'

/** A function of the user's: it may throw, and what it returns may be a Promise that rejects or never settles. */
type Callback = (payload: unknown) => unknown

/** What one version of a module asked for. */
interface Hot {
  accepted: { deps: string[]; callback: (modules: (Exports | undefined)[]) => unknown }[]
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
  /** A listener has thrown, or its Promise was rejected. */
  failed(error: unknown): void
  /** How long, in milliseconds, the callbacks of one call may take together. */
  deadline: number
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
      hot.accepted.push({ deps: ids as string[], callback: modules => call(single ? modules[0] : modules) })
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

  /** What hands the new version of `dep` to `importer`, as the version of it wants that runs now; resolves with what it threw. */
  handOver(importer: string, dep: string, exports: () => Exports | undefined): () => Promise<unknown[]> {
    const accepting = this.#callbacks(importer, dep)
    const call = ({ deps, callback }: Hot['accepted'][number]) =>
      callback(deps.map(other => (this.#idOf(other) === dep ? exports() : undefined)))
    return () => this.#runAll(accepting.map(accepted => ({ id: importer, kind: 'accept', call: () => call(accepted) })))
  }

  /**
   * Runs the `dispose` callbacks of running versions that are about to go, one after the other: importers before what they
   * import. Resolves with what they threw.
   */
  dispose(ids: Iterable<string>): Promise<unknown[]> {
    const going = new Set(ids)
    return this.#disposeOf([...this.#running].filter(([id]) => going.has(id)))
  }

  /** The same forevery running module, when the harness ends. */
  disposeAll(): Promise<unknown[]> {
    return this.#disposeOf([...this.#running])
  }

  /** The same for versions that were staged and do not stay. */
  disposeStaged(staged: StagedHot): Promise<unknown[]> {
    return this.#disposeOf([...staged])
  }

  /** What disposes modules that will be imported no more, runs their `prune` callbacks and forgets their data. */
  pruner(ids: readonly string[]): () => Promise<unknown[]> {
    const pruned = ids.flatMap(id => {
      const hot = this.#running.get(id)
      return hot ? [[id, hot] as const] : []
    })
    return async () => {
      const thrown = await this.#disposeOf(pruned)
      const pruners = pruned.flatMap(([id, hot]) => this.#callsOf(id, 'prune', hot.pruners))
      thrown.push(...(await this.#runAll(pruners)))
      for (const id of ids) this.#data.delete(id)
      return thrown
    }
  }

  /** Puts the contexts of new versions in the place of those in `replaced`. Returns how to undo it. */
  replace(staged: StagedHot, replaced: Iterable<string>): () => void {
    const old = new Map(this.#running)
    for (const id of replaced) this.#running.delete(id)
    for (const [id, hot] of staged) this.#running.set(id, hot)
    return () => {
      this.#running.clear()
      for (const [id, hot] of old) this.#running.set(id, hot)
    }
  }

  /** Tells every module that listens of an event, Vite's or a custom one. */
  emit(event: string, payload: unknown): void {
    const told = [...this.#running.values()].flatMap(({ listeners }) => [...(listeners.get(event) ?? [])])
    for (const listener of told) {
      contained(() => listener(payload)).catch((error: unknown) => this.#host.failed(error))
    }
  }

  #disposeOf(going: (readonly [id: string, hot: Hot])[]): Promise<unknown[]> {
    return this.#runAll(going.toReversed().flatMap(([id, hot]) => this.#callsOf(id, 'dispose', hot.disposers)))
  }

  #callsOf(id: string, kind: string, callbacks: Callback[]): Call[] {
    const data = this.#dataOf(id)
    return callbacks.map(callback => ({ id, kind, call: () => callback(data) }))
  }

  /** Awaits every call in turn, also after one threw; one that does not end in time holds up none that follow. */
  async #runAll(calls: Call[]): Promise<unknown[]> {
    const { deadline } = this.#host
    const start = now()
    const thrown: unknown[] = []
    for (const { id, kind, call } of calls) {
      try {
        const inTime = await within(deadline - (now() - start), contained(call))
        if (!inTime) thrown.push(new Error(`module "${basename(id)}": hot.${kind} has not ended`))
      } catch (error) {
        thrown.push(error)
      }
    }
    return thrown
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

/** A callback to run, and what it is called in a report. */
interface Call {
  id: string
  kind: string
  call(): unknown
}

function listeners(hot: Hot, event: string): Set<Callback> {
  const known = hot.listeners.get(event) ?? new Set()
  hot.listeners.set(event, known)
  return known
}

/** Calls a function at once; what it throws is the rejection of the Promise. */
async function contained(call: () => unknown): Promise<unknown> {
  return call()
}
