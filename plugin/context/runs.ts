/** The open boundaries of one scope. */
import { now } from '../guard/clock.ts'
import { Again } from './again.ts'
import { isHidden, isPending, onSettled } from './promise-state.ts'
import type { Site } from './site.ts'

/** One call of `run()`. It alone goes into the storage; the carried value stays in the scope, which can forget it. */
export interface Run {
  open: boolean
  parent: Run | undefined
  since: number
  promise: Promise<unknown> | undefined
  unwatch: (() => void) | undefined
  site: Site | undefined
}

/** At this many it is looked at once which have settled: the timer does not come in a burst of microtasks. */
const SWEEP_AT = 16

/**
 * Knows which boundaries are open. That one has settled is found by looking: when somebody asks, soon after, and, while a
 * drain waits, when it happens.
 */
export class Runs {
  readonly #open = new Set<Run>()
  readonly #again = new Again(() => this.sweep())
  #sweepAt = SWEEP_AT
  #quiet: { promise: Promise<void>; resolve: () => void } | undefined

  /** Opens a boundary within `parent`. */
  open(parent: Run | undefined): Run {
    const since = now()
    const run: Run = { open: true, parent, since, promise: undefined, unwatch: undefined, site: undefined }
    skipClosedParents(run)
    this.#open.add(run)
    return run
  }

  /** Keeps a boundary open until `promise` has settled. */
  track(run: Run, promise: Promise<unknown>, site: Site): void {
    run.promise = promise
    run.site = site
    // Whether a hidden one settles is seen only while it does.
    if (this.#quiet || isHidden(promise)) this.#watch(run)
    this.#again.soon()
    if (this.#open.size < this.#sweepAt) return
    this.sweep()
    this.#sweepAt = Math.max(SWEEP_AT, this.#open.size * 2)
  }

  /** Closes a boundary, and forgets what it had to do with. */
  close(run: Run): void {
    if (!run.open) return
    run.open = false
    run.unwatch?.()
    run.promise = run.unwatch = run.site = undefined
    this.#open.delete(run)
    if (this.#open.size > 0) return
    this.#again.stop()
    this.#quiet?.resolve()
    this.#quiet = undefined
  }

  /** The boundaries that are open now, oldest first. */
  list(): Run[] {
    this.sweep()
    return [...this.#open]
  }

  /** How many are open now. */
  get size(): number {
    this.sweep()
    return this.#open.size
  }

  /** Resolves when none is open. */
  async quiescence(): Promise<void> {
    if (this.#open.size === 0) return
    if (!this.#quiet) {
      let resolve!: () => void
      this.#quiet = { promise: new Promise<void>(done => (resolve = done)), resolve }
      for (const run of this.#open) this.#watch(run)
    }
    await this.#quiet.promise
  }

  #watch(run: Run): void {
    if (!run.promise || run.unwatch) return
    if (isPending(run.promise)) run.unwatch = onSettled(run.promise, () => this.close(run))
    else this.close(run)
  }

  /** Looks which have settled. */
  sweep(): { left: boolean; found: boolean } {
    const before = this.#open.size
    for (const run of this.#open) if (run.promise && !isPending(run.promise)) this.close(run)
    for (const run of this.#open) skipClosedParents(run)
    return { left: this.#open.size > 0, found: this.#open.size < before }
  }
}

/** A long chain of boundaries that each start the next must not keep the settled ones alive. */
function skipClosedParents(run: Run): void {
  while (run.parent && !run.parent.open) run.parent = run.parent.parent
}
