/** An async-context carrier with an end, for code that is replaced while its callers live on. */
import { AsyncLocalStorage } from 'node:async_hooks'
import { types } from 'node:util'
import { now } from './guard/clock.ts'
import { printableLine } from './guard/printable.ts'
import { Cells } from './context/cells.ts'
import { enter } from './context/enter.ts'
import { type Run, Runs } from './context/runs.ts'
import { captureSite, frames } from './context/site.ts'

/** Options of {@link BoundaryScope}. */
export interface BoundaryScopeOptions<T> {
  /** Subject of the errors: a scope named "agent initiator scope" throws `agent initiator scope is disposed`. */
  name?: string
  /** What a report calls a boundary that carries `value`; asked only when boundaries are listed. */
  label?: (value: T) => string
}

/** One open boundary, as {@link BoundaryScope.boundaries} lists it. */
export interface Boundary {
  /** `label(value)` of the scope's options on one line, `"cleared"` for a boundary that hides the inherited value. */
  label: string
  /** When it was opened, as `performance.now()` counts. */
  since: number
  /** Milliseconds since then. */
  age: number
  /**
   * Stack frames of the caller of `run()`, innermost first, as V8 writes them; none while the operation has not returned,
   * and none of a scope that was created where no development server listens.
   */
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
 * @internal
 */
export const SCOPE_SLOT = Symbol.for('harness-hmr.scope')

/**
 * What the slot holds: told of every scope, with the storage that the scope enters. What it returns is told of every value
 * that a boundary carries, and has to hold it weakly.
 * @internal
 */
export type ScopeListener = (
  scope: BoundaryScope<never>,
  storage: AsyncLocalStorage<unknown>
) => ((value: unknown) => void) | undefined

/** Of a {@link BoundaryScope}: `"closed"` takes no new boundaries, `"disposed"` has forgotten every value. */
export type State = 'open' | 'closed' | 'disposed'

/**
 * Carries a value through an asynchronous operation, and ends: see the RFC on initiating-agent scope, "Decision".
 * A boundary is open until the Promise that its operation returned has settled; work that the operation did not return
 * is not tracked. After {@link dispose} nothing that was carried is reachable through the scope.
 */
export class BoundaryScope<T extends {}> {
  readonly name: string
  readonly #label: ((value: T) => string) | undefined
  readonly #storage = new AsyncLocalStorage<Run>()
  readonly #runs = new Runs(() => this.#values?.forget())
  #values: Cells<T> | undefined = new Cells(() => this.#runs.looksSoon)
  #state: State = 'open'
  #disposal: Promise<void> | undefined
  /** Whether there is somebody who asks where a boundary was opened: a stack costs more than all the rest. */
  readonly #notesSites: boolean
  readonly #carried: ((value: unknown) => void) | undefined = undefined

  constructor({ name = 'scope', label }: BoundaryScopeOptions<T> = {}) {
    this.name = name
    this.#label = label
    const announce = (globalThis as Record<symbol, unknown>)[SCOPE_SLOT] as ScopeListener | undefined
    this.#notesSites = announce !== undefined
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
    return run && values.get(run.cell)
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
      this.#runs.close(run)
      throw error
    }
    if (!types.isPromise(result)) this.#runs.close(run)
    // The operation itself may have started the drain that released this run.
    else if (run.open) this.#runs.track(run, result, this.#notesSites ? captureSite(this.run) : undefined)
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
    this.#runs.sweep()
    let released = 0
    for (let run = this.#storage.getStore(); run; run = run.parent) {
      if (!run.open) continue
      this.#runs.close(run)
      released++
    }
    const drained = this.#runs.size
    await this.#runs.quiescence()
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
    return this.#runs.size
  }

  /**
   * The boundaries that are open now, oldest first, no more than `limit` of them: the first look at each is expensive.
   * @throws after disposal.
   */
  boundaries(limit = Infinity): Boundary[] {
    const values = this.#valuesOrThrow()
    const at = now()
    const runs = this.#runs.list().slice(0, limit)
    return runs.map(run => ({
      label: this.#labelOf(values.get(run.cell)),
      since: run.since,
      age: at - run.since,
      opened: frames(run.site)
    }))
  }

  #labelOf(value: T | undefined): string {
    if (value === undefined) return 'cleared'
    try {
      const label = this.#label?.(value) ?? this.name
      // Of an async function: nobody hears its rejection, and the process would end because a page looks at it.
      if (types.isPromise(label)) label.catch(() => {})
      return printableLine(label)
    } catch {
      return printableLine(`${this.name} (its label failed)`)
    }
  }

  #open(value: T | undefined): Run {
    if (value !== undefined) this.#carried?.(value)
    return this.#runs.open(this.#storage.getStore(), value === undefined ? value : this.#values!.cellOf(value))
  }

  #valuesOrThrow(): Cells<T> {
    if (this.#values === undefined) throw this.#disposedError()
    return this.#values
  }

  #disposedError(): Error {
    return new Error(`${this.name} is disposed`)
  }
}
