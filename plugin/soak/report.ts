/** What a soak reports, and its verdict. Pure. */
import { type AuditReport, type Count, type Outcome, plural, type WhyReport } from '../report/report.ts'
import type { Cost, Open } from './measure.ts'
import type { HeapSlopes } from './slope.ts'

/** Above these a soak has failed. */
export interface SoakLimits {
  /** Bytes that the heap may grow by per reload. */
  maxHeapSlope: number
  /** How many times dearer a boundary, or an await, may have become. */
  maxBoundaryRatio: number
}

/** What a soak has found, JSON-safe. */
export interface SoakReport {
  type: 'soak'
  node: string
  root: string
  /** The file that was reloaded; absolute. */
  file: string
  /** How often it was to be reloaded. */
  times: number
  /** Seconds that the reloads took. */
  seconds: number
  /** Milliseconds per reload: half of them took less, and 95 of 100. */
  reload: { median: number; p95: number }
  outcomes: Partial<Record<Outcome, number>>
  /** What the reloads that did not succeed say, each thing once. */
  errors: string[]
  /** What failed beside in the reloads, each thing once. */
  failures: string[]
  /** Of what was retired. */
  instances: Count
  storages: Count
  stores: Count
  /** Storages that are alive in the whole harness, and those of them that belong to a generation which runs no more. */
  alive: { start: number; end: number; stale: number }
  retained: Pick<AuditReport, 'module' | 'name' | 'generation' | 'outcome' | 'retainers'>[]
  /** What a search through the heap says of the last one of each module. */
  whys: WhyReport[]
  /** Bytes in use after a garbage collection, and how they grow; `null` where too few looks were taken to tell. */
  heap: { start: number; end: number } & HeapSlopes
  /** Nanoseconds. */
  cost: { start: Cost; end: Cost; ratio: Cost }
  /** What more of is open than at the start. */
  grown: Open
  limits: SoakLimits
  /** Why it has failed; empty when it has not. */
  failed: string[]
  /** Why it can be said neither to have passed nor to have failed, and what to do; `null` when it can. */
  vague: string | null
}

/** An uncertain slope fails only where it is so many times its error: few reloads fill caches more than they leak. */
const SURE = 10

/** Whether the heap grows too much; `vague` where that cannot be told. */
function growing({ heap: { perReload }, limits: { maxHeapSlope } }: Pick<SoakReport, 'heap' | 'limits'>) {
  if (!perReload || perReload.value - perReload.error <= maxHeapSlope)
    return perReload && perReload.error > maxHeapSlope && perReload.value + perReload.error > maxHeapSlope
      ? 'vague'
      : 'no'
  return perReload.error > maxHeapSlope && perReload.value < perReload.error * SURE ? 'vague' : 'yes'
}

/** What a soak that has not failed cannot tell, and what to do; `null` when it tells all. */
export function vagueness(report: Pick<SoakReport, 'heap' | 'limits' | 'times'>): string | null {
  const { value, error } = report.heap.perReload ?? { value: 0, error: 0 }
  if (growing(report) !== 'vague') return null
  const times = Math.max(300, report.times * 2)
  return `the heap grows by ${bytes(value)} ± ${bytes(error)} a reload, limit ${bytes(report.limits.maxHeapSlope)}. Use \`--times ${times}\`, or an entry whose agents do less`
}

/** Why a soak has failed. A slope has to exceed its limit by more than its error. */
export function verdict(report: Omit<SoakReport, 'failed' | 'vague'>): string[] {
  const { outcomes, times, retained, alive, heap, cost, grown, limits } = report
  const failed: string[] = []
  const good = (outcomes.reloaded ?? 0) + (outcomes.restarted ?? 0)
  if (good < times) failed.push(`${times - good} of ${plural(times, 'reload')} did not succeed`)
  if (retained.length > 0) failed.push(`${plural(retained.length, 'retired generation')} not released`)
  if (retained.length === 0 && alive.stale > 0)
    failed.push(`${plural(alive.stale, 'storage')} of generations that run no more`)
  const { perReload } = heap
  if (perReload && growing(report) === 'yes')
    failed.push(`the heap grows by ${bytes(perReload.value)} a reload, limit ${bytes(limits.maxHeapSlope)}`)
  for (const [what, ratio] of Object.entries(cost.ratio)) {
    if (ratio > limits.maxBoundaryRatio)
      failed.push(
        `${what === 'await' ? 'an' : 'a'} ${what} costs ${ratio.toFixed(2)} times as much, limit ${limits.maxBoundaryRatio}`
      )
  }
  // One or two more come and go with what the harness does; what every reload leaves does not.
  for (const [name, more] of Object.entries(grown)) {
    if (more >= Math.max(3, times / 10)) failed.push(`${name}: ${more} more than at the start`)
  }
  return failed
}

/** Bytes to read. */
export function bytes(n: number): string {
  const size = Math.abs(n)
  if (size < 10_000) return `${Math.round(n)} B`
  return size < 10_000_000 ? `${(n / 1000).toFixed(1)} kB` : `${(n / 1e6).toFixed(1)} MB`
}
