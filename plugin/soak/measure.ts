/** What a process has and what it pays: heap, the cost of a boundary and of an await, what is open. */
import { getHeapCodeStatistics } from 'node:v8'
import { collectGarbage } from '../audit/collect.ts'
import { BoundaryScope } from '../scope.ts'

/** Nanoseconds. */
export interface Cost {
  boundary: number
  await: number
}

/** What is open in the process, by name: listeners per event of `process`, and what keeps the event loop alive. */
export type Open = Record<string, number>

/** A cost is the least mean of many short batches: whatever else runs meanwhile only adds to it. */
const BATCHES = 60
const BATCH = 200

/** One macrotask: what was queued before has run. */
export const turn = (): Promise<void> => new Promise(resolve => setImmediate(resolve))

/**
 * Bytes that are in use; the least of some looks, since what is under way comes and goes. Without the machine code that V8
 * makes of what runs often: it goes on doing so for a thousand reloads, and looks like a leak of a kilobyte each.
 */
export async function heapInUse(looks = 3): Promise<number> {
  let least = Infinity
  for (let look = 0; look < looks; look++) {
    await turn()
    collectGarbage()
    least = Math.min(least, process.memoryUsage().heapUsed - getHeapCodeStatistics().code_and_metadata_size)
  }
  return least
}

/** What an awaited boundary, and an await alone, cost here and now. */
export async function costs(): Promise<Cost> {
  const scope = new BoundaryScope<object>({ name: 'harness-hmr soak' })
  const value = {}
  await drainOnce(scope, value)
  const nothing = async () => {}
  const settled = Promise.resolve()
  const cost = {
    boundary: await leastOf(async () => {
      await scope.run(value, nothing)
    }),
    await: await leastOf(async () => {
      await settled
    })
  }
  await scope.dispose()
  return cost
}

/**
 * A drain that has to wait learns of a settlement by a hook, and after the first hook of a process V8 makes every await a
 * tenth dearer, once and for all. The harness will do so sooner or later: it is no growth.
 */
async function drainOnce(scope: BoundaryScope<object>, value: object): Promise<void> {
  let settle!: () => void
  void scope.run(value, () => new Promise<void>(resolve => (settle = resolve)))
  const drained = scope.drain()
  settle()
  await drained
}

async function leastOf(operation: () => Promise<void>): Promise<number> {
  let least = Infinity
  for (let batch = 0; batch < BATCHES; batch++) {
    await turn()
    const start = process.hrtime.bigint()
    for (let i = 0; i < BATCH; i++) await operation()
    least = Math.min(least, Number(process.hrtime.bigint() - start) / BATCH)
  }
  return Math.round(least)
}

/** What is open now. */
export function open(): Open {
  const counts: Open = {}
  for (const event of process.eventNames()) {
    counts[`listener "${String(event)}" on process`] = process.listenerCount(event)
  }
  for (const type of process.getActiveResourcesInfo()) counts[type] = (counts[type] ?? 0) + 1
  return counts
}

/** The counts of several looks as one: by `pick`, the largest or the smallest of each name. */
export function combine(looks: Open[], pick: (...counts: number[]) => number): Open {
  const names = new Set(looks.flatMap(look => Object.keys(look)))
  return Object.fromEntries([...names].map(name => [name, pick(...looks.map(look => look[name] ?? 0))]))
}
