/** The open boundaries of one scope. */
import { now } from '../guard/clock.ts'
import { Again } from './again.ts'
import type { Cell } from './cells.ts'
import { isHidden, isPending, onSettled, statesOf } from './promise-state.ts'
import type { Site } from './site.ts'

/** One call of `run()`. It alone goes into the storage; the carried value stays in the scope, which can forget it. */
export interface Run {
  open: boolean
  parent: Run | undefined
  /** Stands for the carried value. */
  cell: Cell | undefined
  since: number
  promise: Promise<unknown> | undefined
  unwatch: (() => void) | undefined
  site: Site | undefined
  /** Its neighbours, opened before and after it, while it is open. */
  before: Run | undefined
  after: Run | undefined
}

/** So many new ones are looked at together: the timer does not come in a burst of microtasks. */
const BATCH = 32

/**
 * Knows which boundaries are open. That one has settled is found by looking: when somebody asks, soon after, and, while a
 * drain waits, when it happens. Most settle soon: the new ones are looked at by themselves, so that those that stay open
 * for long cost the others nothing.
 */
export class Runs {
  #first: Run | undefined
  #last: Run | undefined
  #size = 0
  /** Those that nobody has looked at. */
  #young: Run[] = []
  #sweepAt = 2 * BATCH
  readonly #again = new Again(() => this.sweep())
  readonly #swept: () => void
  #quiet: { promise: Promise<void>; resolve: () => void } | undefined

  /** `swept` is called whenever it has looked at all of them. */
  constructor(swept: () => void) {
    this.#swept = swept
  }

  /** Whether it is going to look at all of them within a second. */
  get looksSoon(): boolean {
    return this.#again.isSet
  }

  /** Opens a boundary within `parent`. */
  open(parent: Run | undefined, cell: Cell | undefined): Run {
    const before = this.#last
    const run: Run = {
      open: true,
      parent,
      cell,
      since: now(),
      promise: undefined,
      unwatch: undefined,
      site: undefined,
      before,
      after: undefined
    }
    skipClosedParents(run)
    if (before) before.after = run
    else this.#first = run
    this.#last = run
    this.#size++
    return run
  }

  /** Keeps a boundary open until `promise` has settled. */
  track(run: Run, promise: Promise<unknown>, site: Site | undefined): void {
    run.promise = promise
    run.site = site
    // Whether a hidden one settles is seen only while it does.
    if ((this.#quiet || isHidden(promise)) && !this.#watch(run)) return
    this.#again.soon()
    if (this.#young.push(run) < BATCH) return
    const young = this.#young
    this.#young = []
    this.#look(young)
    if (this.#size >= this.#sweepAt) this.sweep()
  }

  /** Closes a boundary, and forgets what it had to do with. */
  close(run: Run): void {
    if (!run.open) return
    run.open = false
    run.unwatch?.()
    const { before, after } = run
    if (before) before.after = after
    else this.#first = after
    if (after) after.before = before
    else this.#last = before
    run.promise = run.unwatch = run.site = run.before = run.after = undefined
    if (--this.#size > 0) return
    this.#quiet?.resolve()
    this.#quiet = undefined
  }

  /** The boundaries that are open now, oldest first. */
  list(): Run[] {
    this.sweep()
    return this.#list()
  }

  /** How many are open now. */
  get size(): number {
    this.sweep()
    return this.#size
  }

  /** Resolves when none is open. */
  async quiescence(): Promise<void> {
    if (this.size === 0) return
    if (!this.#quiet) {
      let resolve!: () => void
      this.#quiet = { promise: new Promise<void>(done => (resolve = done)), resolve }
      for (const run of this.#list()) this.#await(run)
    }
    await this.#quiet.promise
  }

  /** Notices when a boundary settles. @returns whether it is still open. */
  #watch(run: Run): boolean {
    if (isPending(run.promise!)) this.#await(run)
    else this.close(run)
    return run.open
  }

  #await(run: Run): void {
    if (run.promise) run.unwatch ??= onSettled(run.promise, () => this.close(run))
  }

  /** Looks at all of them. */
  sweep(): { left: boolean; found: boolean } {
    const before = this.#size
    this.#young = []
    this.#look(this.#list())
    this.#sweepAt = 2 * Math.max(BATCH, this.#size)
    this.#swept()
    return { left: this.#size > 0, found: this.#size < before }
  }

  /** Looks which of these have settled. */
  #look(runs: Run[]): void {
    const tracked = runs.filter(run => run.promise !== undefined)
    const states = statesOf(tracked.map(run => run.promise!))
    tracked.forEach((run, index) => states[index] === 'settled' && this.close(run))
    for (const run of runs) skipClosedParents(run)
  }

  #list(): Run[] {
    const runs: Run[] = []
    for (let run = this.#first; run; run = run.after) runs.push(run)
    return runs
  }
}

/** A long chain of boundaries that each start the next must not keep the settled ones alive. */
function skipClosedParents(run: Run): void {
  while (run.parent && !run.parent.open) run.parent = run.parent.parent
}
