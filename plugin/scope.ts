/**
 * An async-context carrier with an end, for code that is replaced while its callers live on.
 *
 * Why the settlement of a boundary is looked at and never subscribed to: any `then` marks the promise as handled, so a
 * rejection that nobody awaits would vanish instead of reaching Node's `unhandledRejection`, and a second reaction cuts
 * the async stack trace of the caller. Node shows a promise's state through `util.inspect`; the moment of settlement,
 * needed only while a drain waits, comes from `v8.promiseHooks`. Neither touches `then`, `constructor` or the species.
 */
import { AsyncLocalStorage, AsyncResource } from 'node:async_hooks'
import { performance } from 'node:perf_hooks'
import { inspect, types } from 'node:util'
import { promiseHooks } from 'node:v8'

/** Options of {@link BoundaryScope}. */
export interface BoundaryScopeOptions<T> {
  /** Subject of the errors: a scope named "agent initiator scope" throws `agent initiator scope is disposed`. */
  name?: string
  /** What a report calls a boundary that carries `value`; asked only when boundaries are listed. */
  label?: (value: T) => string
}

/** One open boundary, as {@link BoundaryScope.boundaries} lists it. */
export interface Boundary {
  /** `label(value)` of the scope's options, `"cleared"` for a boundary that hides the inherited value. */
  label: string
  /** When it was opened, as `performance.now()` counts. */
  since: number
  /** Milliseconds since then. */
  age: number
  /** Stack frames of the caller of `run()`, innermost first, as V8 writes them; none while the operation has not returned. */
  opened: string[]
}

/** How a drain ended: how many boundaries it waited for, and how many it let go because they started it. */
export interface Drained {
  drained: number
  released: number
}

/**
 * The slot through which a scope announces itself to a ledger, when one is there. A scope is created rarely and a
 * process-wide slot is the only thing that an external copy of this module and a development server have in common.
 */
export const SCOPE_SLOT = Symbol.for('harness-hmr.scope')

/**
 * What the slot holds: told of every scope, with the storage that the scope enters. What it returns is told of every value
 * that a boundary carries, and has to hold it weakly.
 */
export type ScopeListener = (
  scope: BoundaryScope<never>,
  storage: AsyncLocalStorage<unknown>
) => ((value: unknown) => void) | undefined

/** One call of `run()`. It alone goes into the storage; the carried value stays in the scope, which can forget it. */
interface Run {
  open: boolean
  parent: Run | undefined
  since: number
  promise: Promise<unknown> | undefined
  unwatch: (() => void) | undefined
  site: Site | undefined
}

type State = 'open' | 'closed' | 'disposed'

/** Below this many boundaries nobody looks whether some have settled, unless asked. */
const SWEEP_AT = 16

/**
 * Carries a value through an asynchronous operation, and ends: see the RFC on initiating-agent scope, "Decision".
 * A boundary is open until the Promise that its operation returned has settled; work that the operation did not return
 * is not tracked. After {@link dispose} nothing that was carried is reachable through the scope.
 */
export class BoundaryScope<T extends {}> {
  readonly name: string
  readonly #label: ((value: T) => string) | undefined
  readonly #storage = new AsyncLocalStorage<Run>()
  readonly #runs = new Set<Run>()
  #values: WeakMap<Run, T> | undefined = new WeakMap()
  #state: State = 'open'
  #sweepAt = SWEEP_AT
  #quiet: { promise: Promise<void>; resolve: () => void } | undefined
  #disposal: Promise<void> | undefined
  readonly #carried: ((value: unknown) => void) | undefined = undefined

  constructor({ name = 'scope', label }: BoundaryScopeOptions<T> = {}) {
    this.name = name
    this.#label = label
    const announce = (globalThis as Record<symbol, unknown>)[SCOPE_SLOT] as ScopeListener | undefined
    const carried: unknown = announce?.(this as unknown as BoundaryScope<never>, this.#storage)
    // The other side may be of another version.
    if (typeof carried === 'function') this.#carried = carried as (value: unknown) => void
  }

  /** `"open"`, `"closed"` while it drains, `"disposed"` after. */
  get state(): State {
    return this.#state
  }

  /**
   * The value of the innermost boundary that the caller runs in; `undefined` outside and in a cleared boundary.
   * @throws after disposal.
   */
  current(): T | undefined {
    const run = this.#storage.getStore()
    const values = this.#valuesOrThrow()
    return run && values.get(run)
  }

  /** Whether the caller runs in an open boundary, or in work that an open one has started; false after disposal. */
  isInside(): boolean {
    for (let run = this.#storage.getStore(); run; run = run.parent) if (run.open) return true
    return false
  }

  /**
   * Opens a boundary that carries `value`, or hides the inherited one when `value` is `undefined`.
   * @returns exactly what `operation` returned, the same Promise included.
   * @throws what `operation` throws, and an error when the scope is closed or disposed.
   */
  run<R>(value: T | undefined, operation: () => R): R {
    if (this.#state !== 'open') throw this.#disposedError()
    const run = this.#open(value)
    let result: R
    try {
      result = enter(this.#storage, run, operation)
    } catch (error) {
      this.#close(run)
      throw error
    }
    if (!types.isPromise(result)) this.#close(run)
    else this.#track(run, result)
    return result
  }

  /** Refuses new boundaries from now on; those that are open go on, and reads still work. */
  close(): void {
    if (this.#state === 'open') this.#state = 'closed'
  }

  /**
   * Resolves when no boundary is open. The boundary whose own async chain asks, and those around it, are let go first:
   * they could not settle before the drain that they wait for.
   * @throws after disposal.
   */
  async drain(): Promise<Drained> {
    this.#valuesOrThrow()
    this.#sweep()
    let released = 0
    for (let run = this.#storage.getStore(); run; run = run.parent) {
      if (!run.open) continue
      this.#close(run)
      released++
    }
    const drained = this.#runs.size
    if (drained > 0) await this.#quiescence()
    return { drained, released }
  }

  /** Closes, drains, and forgets every carried value. Memoised; the caller's own boundary never blocks it. */
  dispose(): Promise<void> {
    this.close()
    if (this.#state === 'disposed') return this.#disposal!
    // Every call looks for its own lineage, also when a disposal is under way: the second caller may be the one waited for.
    const drained = this.drain()
    return (this.#disposal ??= drained.then(() => {
      this.#state = 'disposed'
      this.#values = undefined
      this.#storage.disable()
    }))
  }

  /** How many boundaries are open now; 0 after disposal. */
  get size(): number {
    this.#sweep()
    return this.#runs.size
  }

  /**
   * The boundaries that are open now, oldest first, no more than `limit` of them: the first look at each is dear.
   * @throws after disposal.
   */
  boundaries(limit = Infinity): Boundary[] {
    const values = this.#valuesOrThrow()
    this.#sweep()
    const now = performance.now()
    return [...this.#runs].slice(0, limit).map(run => {
      const value = values.get(run)
      return {
        label: value === undefined ? 'cleared' : (this.#label?.(value) ?? this.name),
        since: run.since,
        age: now - run.since,
        opened: frames(run.site)
      }
    })
  }

  #open(value: T | undefined): Run {
    const run: Run = {
      open: true,
      parent: this.#storage.getStore(),
      since: performance.now(),
      promise: undefined,
      unwatch: undefined,
      site: undefined
    }
    skipClosedParents(run)
    if (value !== undefined) {
      this.#values!.set(run, value)
      this.#carried?.(value)
    }
    this.#runs.add(run)
    return run
  }

  #track(run: Run, promise: Promise<unknown>): void {
    // The operation itself may have started the drain that released this run.
    if (!run.open) return
    run.promise = promise
    run.site = captureSite(this.run)
    if (this.#quiet) this.#watch(run)
    if (this.#runs.size >= this.#sweepAt) {
      this.#sweep()
      this.#sweepAt = Math.max(SWEEP_AT, this.#runs.size * 2)
    }
  }

  #close(run: Run): void {
    if (!run.open) return
    run.open = false
    run.unwatch?.()
    run.promise = run.unwatch = run.site = undefined
    this.#runs.delete(run)
    if (this.#runs.size > 0) return
    this.#quiet?.resolve()
    this.#quiet = undefined
  }

  #quiescence(): Promise<void> {
    if (!this.#quiet) {
      let resolve!: () => void
      this.#quiet = { promise: new Promise<void>(done => (resolve = done)), resolve }
      for (const run of this.#runs) this.#watch(run)
    }
    return this.#quiet.promise
  }

  #watch(run: Run): void {
    if (!run.promise) return
    if (isPending(run.promise)) run.unwatch = onSettled(run.promise, () => this.#close(run))
    else this.#close(run)
  }

  #sweep(): void {
    for (const run of this.#runs) if (run.promise && !isPending(run.promise)) this.#close(run)
    for (const run of this.#runs) skipClosedParents(run)
  }

  #valuesOrThrow(): WeakMap<Run, T> {
    if (this.#values === undefined) throw this.#disposedError()
    return this.#values
  }

  #disposedError(): Error {
    return new Error(`${this.name} is disposed`)
  }
}

/** A long chain of boundaries that each start the next must not keep the settled ones alive. */
function skipClosedParents(run: Run): void {
  while (run.parent && !run.parent.open) run.parent = run.parent.parent
}

/**
 * True where an `AsyncLocalStorage` puts the store on the current async resource (async_hooks: Node 22 and older, or
 * `--no-async-context-frame`), found by looking: the flags make the version number a bad witness. A resource that is
 * entered twice shows the second time what was put on it the first; a frame is the same each time.
 */
function storesOnResource(): boolean {
  const probe = new AsyncLocalStorage<boolean>()
  const resource = new AsyncResource('BoundaryScope')
  resource.runInAsyncScope(() => probe.enterWith(true))
  const found = resource.runInAsyncScope(() => probe.getStore())
  probe.disable()
  return found === true
}

interface Enterable<S> {
  run<R>(store: S, operation: () => R): R
}

/**
 * Enters a storage and leaves no residue in the caller. With AsyncContextFrame `run()` ends by writing the prior store
 * under its key, so a caller that lives on would keep the storage for ever; an AsyncResource gives the caller its own
 * frame back. The older implementation needs no such detour, and pays 15 times for it.
 */
export const enter: <S, R>(storage: Enterable<S>, store: S, operation: () => R) => R = storesOnResource()
  ? (storage, store, operation) => storage.run(store, operation)
  : (storage, store, operation) =>
      new AsyncResource('BoundaryScope', { requireManualDestroy: true }).runInAsyncScope(() =>
        storage.run(store, operation)
      )

/**
 * Whether a promise is pending, without a reaction on it and without a call of its `then`, `constructor` or species.
 * The text that `inspect` returns is the owner's to shape (class names, properties, `inspect.defaultOptions`); the token
 * that it hands to `stylize` for the state alone is not.
 */
export function isPending(promise: Promise<unknown>): boolean {
  let pending = false
  const stylize = (text: string, style: string): string => {
    if (text === '<pending>' && style === 'special') pending = true
    return text
  }
  try {
    const quick = {
      depth: 0,
      customInspect: false,
      showProxy: false,
      getters: false,
      colors: false,
      maxStringLength: 0,
      maxArrayLength: 0,
      stylize
    }
    inspect(promise, quick)
  } catch {
    // A property of the promise, what it holds, or a class that throws when asked for its name.
  }
  return pending
}

/** Who waits for which promise, while any scope drains: the only time when the process pays for a promise hook. */
const waiting = new Map<Promise<unknown>, Set<() => void>>()
let stopHook: (() => void) | undefined

// Taken now: a drain must end too while a test fakes the global.
const { queueMicrotask } = globalThis

/** Calls back when `promise` has settled. @returns stops waiting; to be called afterwards too. */
function onSettled(promise: Promise<unknown>, callback: () => void): () => void {
  const callbacks = waiting.get(promise) ?? new Set()
  waiting.set(promise, callbacks.add(callback))
  stopHook ??= promiseHooks.onSettled(promise => {
    // The hook comes before the state changes: look again after it, and trust only what is seen.
    if (waiting.has(promise)) queueMicrotask(() => settle(promise))
  }) as () => void
  return () => {
    callbacks.delete(callback)
    if (callbacks.size === 0) waiting.delete(promise)
    if (waiting.size > 0) return
    stopHook?.()
    stopHook = undefined
  }
}

function settle(promise: Promise<unknown>): void {
  const callbacks = waiting.get(promise)
  if (callbacks && !isPending(promise)) for (const callback of callbacks) callback()
}

/** The stack of whoever called `callee`, formatted only when somebody asks. */
export interface Site {
  stack?: string
}

/** Notes the stack of whoever called `callee`. */
export function captureSite(callee: Function): Site {
  const site: Site = {}
  Error.captureStackTrace(site, callee)
  return site
}

/** The frames of a site, innermost first, as V8 writes them. */
export function frames(site: Site | undefined): string[] {
  const stack: unknown = site?.stack
  // An `Error.prepareStackTrace` of the user's may have made anything of it.
  if (typeof stack !== 'string') return []
  return stack
    .split('\n')
    .slice(1)
    .map(line => line.trim().replace(/^at /, ''))
}
