/** The soak itself, in a process of its own: one file is reloaded many times, and what grows is measured. */
import { resolve } from 'node:path'
import { setTimeout } from 'node:timers/promises'
import type { Running } from '../reload/running.ts'
import type { WhyReport } from '../report/report.ts'
import { serve, type Served } from '../testing/server.ts'
import { combine, costs, heapInUse, open, type Cost, type Open } from './measure.ts'
import { type SoakLimits, type SoakReport, vagueness, verdict } from './report.ts'
import { Tally } from './tally.ts'
import { heapSlopes, type Point } from './slope.ts'

/** What to soak. */
export interface SoakOptions extends SoakLimits {
  /** Vite's root; the config's, or the working directory, without it. */
  root?: string
  /** As of `harnessHmr()`; without one the config's runs. */
  entry?: string
  /** Vite's config file; the one in the root without it. */
  config?: string
  /** The file to reload, relative to the root. */
  file: string
  times: number
  /** Milliseconds between two reloads. */
  pause: number
}

/** How far a soak has come. */
export interface SoakProgress {
  stage: string
  done: number
  of: number
}

/** So often the heap is looked at, at most; each look blocks for some garbage collections. */
const SAMPLES = 50
/** Generations that are audited at once, at most; what is not audited is forgotten at some time. */
const GROUP = 40
/** Looks at what is open, and at the heap without reloads, of which a short soak learns nothing; milliseconds between them. */
const LOOKS = 16
const LEAST_LOOKS = 4
const LOOK_EVERY = 250
/** Modules whose retained generation the heap is searched for. */
const SEARCHED = 3
/** How many storages one place of the code knows before V8 looks each up: its inline caches have four entries. */
const TOLD_APART = 4
/** How often costs are measured at the start and at the end; and where they seem too high. */
const COSTS = 6
const MORE_COSTS = 16

/**
 * Reloads a file many times, under the load that the harness makes itself.
 * @throws when the harness does not start, no running module is made of the file, or a reload of it replaces nothing.
 */
export async function soak(options: SoakOptions, progress: (progress: SoakProgress) => void): Promise<SoakReport> {
  const { entry, config } = options
  const tally = new Tally(options.times)
  // Audited in groups, when we ask: one garbage collection for each reload would be most of the time.
  const own = entry === undefined ? {} : { entry, audit: false }
  const root = resolve(options.root ?? '.')
  const vite = { configFile: config, root: options.root === undefined ? undefined : root }
  const served = await serve(root, own, vite, {
    reload: report => tally.reload(report),
    audit: report => tally.audit(report)
  })
  try {
    return await soaked(served, options, tally, progress)
  } finally {
    await served.close()
  }
}

async function soaked(
  served: Served,
  options: SoakOptions,
  tally: Tally,
  progress: (progress: SoakProgress) => void
): Promise<SoakReport> {
  const { times, maxHeapSlope, maxBoundaryRatio } = options
  const file = await served.find(options.file)
  const running = served.harness.running!
  progress({ stage: 'measuring', done: 0, of: times })
  const looks = Math.min(LOOKS, Math.max(LEAST_LOOKS, Math.round(times / 10)))
  const start = await quiet(running, looks)
  // V8 is faster with the first few storages of a process than it ever will be again: no reload is to blame for that.
  for (let storages = 0; storages <= TOLD_APART; storages++) await costs()
  const startCost = await leastCost(() => true)
  const begin = performance.now()
  const points = await reloads(served, file, options, tally, progress)
  const seconds = (performance.now() - begin) / 1000
  progress({ stage: 'measuring', done: times, of: times })
  await running.auditor.run()
  const end = await quiet(running, looks)
  const [endCost, ratio] = await compared(startCost, maxBoundaryRatio)
  const summary = tally.summary()
  const report = {
    type: 'soak' as const,
    node: process.versions.node,
    root: served.root,
    file,
    times,
    seconds: Math.round(seconds * 10) / 10,
    ...summary,
    whys: await search(served, summary.retained, progress),
    alive: { start: Math.max(...start.storages), end: Math.min(...end.storages), stale: stale(running) },
    heap: { start: start.heap, end: end.heap, ...heapSlopes(end.background, points) },
    cost: { start: startCost, end: endCost, ratio },
    grown: growth(combine(start.open, Math.max), combine(end.open, Math.min)),
    limits: { maxHeapSlope, maxBoundaryRatio }
  }
  return { ...report, failed: verdict(report), vague: vagueness(report) }
}

async function reloads(
  { harness }: Served,
  file: string,
  { times, pause }: SoakOptions,
  tally: Tally,
  progress: (progress: SoakProgress) => void
): Promise<Point[]> {
  const { host, auditor } = harness.running!
  const every = Math.max(1, Math.floor(times / SAMPLES))
  const points: Point[] = []
  const begin = performance.now()
  let known = 0
  for (let done = 1; done <= times; done++) {
    harness.invalidate(host.modulesOf(file))
    await harness.idle()
    // Nothing can be learned from what does not even once succeed.
    const [error] = tally.errors
    if (done === 1 && error !== undefined) throw new Error(`the first reload was ${error}`)
    await setTimeout(pause)
    progress({ stage: 'reloading', done, of: times })
    const isLook = done % every === 0 || done === times
    if (!isLook && auditor.unsettled().length < known + GROUP) continue
    await auditor.run()
    known = auditor.unsettled().length
    harness.forgetReports()
    if (isLook) points.push({ reloads: done, seconds: (performance.now() - begin) / 1000, heap: await heapInUse() })
  }
  return points
}

/** Searches the heap for what keeps the last retained generation of each module; those before it are kept the same way. */
async function search(
  { harness }: Served,
  retained: SoakReport['retained'],
  progress: (progress: SoakProgress) => void
): Promise<WhyReport[]> {
  const last = new Map(retained.filter(({ outcome }) => outcome === 'retained').map(each => [each.module, each]))
  const stop = harness.listen({
    progress: ({ stage, fraction }) => progress({ stage, done: Math.round(fraction * 100), of: 100 })
  })
  const whys: WhyReport[] = []
  for (const generation of [...last.values()].slice(0, SEARCHED)) whys.push(...(await harness.why(generation)))
  stop()
  return whys
}

/** What is there while nothing is reloaded. */
async function quiet({ ledger }: Running, times: number) {
  const looks: Open[] = []
  const storages: number[] = []
  const background: [seconds: number, heap: number][] = []
  const begin = performance.now()
  for (let look = 0; look < times; look++) {
    await setTimeout(LOOK_EVERY)
    background.push([(performance.now() - begin) / 1000, await heapInUse()])
    storages.push(ledger.live().length)
    looks.push(open())
  }
  return { open: looks, storages, background, heap: Math.min(...background.map(([, heap]) => heap)) }
}

/** Storages of generations that run no more. */
function stale({ ledger, host }: Running): number {
  return ledger.live().filter(entry => {
    const owner = ledger.ownerOf(entry)
    return owner && !host.runs(owner.module, owner.generation)
  }).length
}

/** The cost now and how it compares; measured again when it is too much, since a busy machine looks like that too. */
async function compared(before: Cost, limit: number): Promise<[now: Cost, ratio: Cost]> {
  const ratio = (now: Cost) => ({ boundary: now.boundary / before.boundary, await: now.await / before.await })
  const isFine = (now: Cost) => Math.max(...Object.values(ratio(now))) <= limit
  const now = await leastCost(isFine)
  return [now, ratio(now)]
}

async function leastCost(isFine: (cost: Cost) => boolean): Promise<Cost> {
  const least: Cost = { boundary: Infinity, await: Infinity }
  for (let times = 0; times < COSTS || (times < MORE_COSTS && !isFine(least)); times++) {
    // One that is slow for a moment is slow for longer than it takes to look again.
    if (times > 0) await setTimeout(times < COSTS ? LOOK_EVERY / 5 : LOOK_EVERY)
    const cost = await costs()
    least.boundary = Math.min(least.boundary, cost.boundary)
    least.await = Math.min(least.await, cost.await)
  }
  return least
}

function growth(before: Open, after: Open): Open {
  return Object.fromEntries(
    Object.entries(after).flatMap(([name, count]) => {
      const more = count - (before[name] ?? 0)
      return more > 0 ? [[name, more]] : []
    })
  )
}
