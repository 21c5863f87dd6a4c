/** Forced garbage collections, out of a working harness' way. */
import { performance } from 'node:perf_hooks'
import { getHeapStatistics, setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'
import { now, setImmediate, setTimeout } from '../guard/clock.ts'

/** Milliseconds between two collections that nobody has asked for. */
const APART = 1000
/** A moment in which little goes on: its milliseconds, and the share of them in which the process may work. */
const MOMENT = { ms: 25, busy: 0.5 }
/** Where the heap is so large that a collection would be felt. */
const LONG_MOMENT = { ms: 500, busy: 0.2 }

/** A collection blocks the process: it waits for a moment in which that is felt least, unless somebody asks for it. */
export class Collector {
  readonly #large: number
  readonly #isUrgent: () => boolean
  readonly #waits: (megabytes: number) => void
  #last = -Infinity

  /** `waits` is told of a heap of `large` MB or more: that waits for a quiet moment forever, any other for a second. */
  constructor(large: number, isUrgent: () => boolean, waits: (megabytes: number) => void) {
    this.#large = large
    this.#isUrgent = isUrgent
    this.#waits = waits
  }

  /** Waits until a collection is in no one's way. */
  async quiet(): Promise<void> {
    const due = Math.max(now(), this.#last + APART)
    for (let told = false; !this.#isUrgent();) {
      const megabytes = Math.round(getHeapStatistics().used_heap_size / 2 ** 20)
      const isLarge = megabytes >= this.#large
      if (isLarge && !told) this.#waits(megabytes)
      told ||= isLarge
      const { ms, busy } = isLarge ? LONG_MOMENT : MOMENT
      const before = performance.eventLoopUtilization()
      await pause(ms)
      if (now() < due) continue
      const isQuiet = performance.eventLoopUtilization(before).utilization < busy
      if (isQuiet || (!isLarge && now() > due + APART)) return
    }
  }

  /** Collects. */
  collect(): void {
    collectGarbage()
    this.#last = now()
  }
}

let gc: (() => void) | undefined

/** Forces a full garbage collection without a start-up flag; blocks for about 1 ms per MB of live heap. */
export function collectGarbage(): void {
  if (!gc) {
    setFlagsFromString('--expose-gc')
    gc = runInNewContext('gc') as () => void
    setFlagsFromString('--no-expose-gc')
  }
  gc()
}

/** A turn of the event loop: within the turn in which a WeakRef was read, its target is kept alive. */
export function pause(ms: number): Promise<void> {
  return new Promise(resolve => {
    if (ms === 0) setImmediate(resolve)
    else setTimeout(resolve, ms).unref()
  })
}
