/** The numbers behind the live page's charts. Each costs about a millisecond, so they are taken while a page is open. */
import { now } from '../../guard/clock.ts'
import { outside } from '../../guard/outside.ts'
import type { Harness } from '../../harness/harness.ts'
import { KEPT } from '../../harness/history.ts'
import type { Sample } from './protocol.ts'
import { BoundaryScope } from '../../scope.ts'

/** A cost is the least mean of some batches: whatever else runs meanwhile only adds to it. */
const BATCHES = 5
const BATCH = 10

/** Takes samples of one harness. */
export class Sampler {
  /** The newest per reload, oldest first. */
  readonly samples: Sample[] = []
  readonly #harness: Harness
  readonly #told: (sample: Sample) => void
  #running: Promise<void> | undefined

  constructor(harness: Harness, told: (sample: Sample) => void) {
    this.#harness = harness
    this.#told = told
  }

  /** Takes one, outside of every boundary, which would be measured too; asked again meanwhile, it does so once. */
  take(): Promise<void> {
    return (this.#running ??= outside(() => this.#take()))
  }

  async #take(): Promise<void> {
    const boundary = await boundaryCost()
    this.#running = undefined
    const { running, history } = this.#harness
    if (!running) return
    const sample = {
      reload: history.reloads.at(-1)?.id ?? 0,
      storages: running.ledger.live().length,
      heap: process.memoryUsage().heapUsed,
      boundary
    }
    if (this.samples.at(-1)?.reload === sample.reload) this.samples.pop()
    this.samples.push(sample)
    if (this.samples.length > KEPT) this.samples.shift()
    this.#told(sample)
  }
}

/** Microseconds that an awaited boundary takes here and now. */
async function boundaryCost(): Promise<number> {
  const scope = new BoundaryScope<object>({ name: 'harness-hmr.sample' })
  let least = Infinity
  for (let batch = 0; batch < BATCHES; batch++) {
    const start = now()
    for (let i = 0; i < BATCH; i++) await scope.run(scope, async () => {})
    least = Math.min(least, now() - start)
  }
  await scope.dispose()
  return (least / BATCH) * 1000
}
