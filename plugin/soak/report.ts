/** What a soak reports, its verdict, and the table that the terminal shows. Pure. */
import { relative } from 'node:path'
import colors from 'picocolors'
import {
  type AuditReport,
  type Count,
  type Outcome,
  place,
  plural,
  type ReloadReport,
  type Retainer,
  retainerLine,
  whyLine,
  type WhyReport
} from '../report.ts'
import type { Cost, Open } from './measure.ts'
import type { Slope } from './slope.ts'

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
  heap: {
    /** Bytes in use, after a garbage collection. */
    start: number
    end: number
    /** Bytes per second that it grows without reloads; `null` where too few looks were taken to tell. */
    background: Slope | null
    /** Bytes per reload that it grows with them, and how much of it is theirs. */
    total: Slope | null
    perReload: Slope | null
  }
  /** Nanoseconds. */
  cost: { start: Cost; end: Cost; ratio: Cost }
  /** What more of is open than at the start. */
  grown: Open
  limits: SoakLimits
  /** Why it has failed; empty when it has not. */
  failed: string[]
}

/** Why a soak has failed. A slope has to exceed its limit by more than its error. */
export function verdict(report: Omit<SoakReport, 'failed'>): string[] {
  const { outcomes, times, retained, alive, heap, cost, grown, limits } = report
  const failed: string[] = []
  const good = (outcomes.reloaded ?? 0) + (outcomes.restarted ?? 0)
  if (good < times) failed.push(`${times - good} of ${plural(times, 'reload')} did not succeed`)
  if (retained.length > 0) failed.push(`${plural(retained.length, 'retired generation')} not released`)
  if (retained.length === 0 && alive.stale > 0)
    failed.push(`${plural(alive.stale, 'storage')} of generations that run no more`)
  const { perReload } = heap
  if (perReload && perReload.value - perReload.error > limits.maxHeapSlope)
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

/** Notes what reloads and audits report, as little of it as the report needs. */
export class Tally {
  readonly outcomes: SoakReport['outcomes'] = {}
  readonly errors = new Set<string>()
  readonly failures = new Set<string>()
  readonly instances: Count = { created: 0, collected: 0 }
  readonly storages: Count = { created: 0, collected: 0 }
  readonly stores: Count = { created: 0, collected: 0 }
  /** Numbers alone: strings and objects would be growth of our own. */
  readonly #ms: Float64Array
  #reloads = 0
  readonly #open = new Map<string, AuditReport>()

  constructor(times: number) {
    this.#ms = new Float64Array(times)
  }

  /** Notes a reload. */
  reload({ outcome, error, reason, failures, ms }: ReloadReport): void {
    this.outcomes[outcome] = (this.outcomes[outcome] ?? 0) + 1
    this.#ms[this.#reloads++] = Object.values(ms).reduce((sum, step) => sum + step, 0)
    const told = error ? `${error.location ? `${place(error.location, '')} ` : ''}${error.message}` : reason
    if (told && outcome !== 'reloaded' && outcome !== 'restarted') this.errors.add(`${outcome}: ${told}`)
    for (const failure of failures) this.failures.add(failure.replace(/\b\d+\b/g, '#'))
  }

  /** Notes a verdict; the last one on a generation counts. */
  audit(report: AuditReport): void {
    const key = `${report.module} ${report.generation}`
    const before = this.#open.get(key)
    if (before) this.#count(before, -1)
    this.#count(report, 1)
    if (report.outcome === 'collected') this.#open.delete(key)
    else this.#open.set(key, report)
  }

  #count(report: AuditReport, sign: 1 | -1): void {
    for (const what of ['instances', 'storages', 'stores'] as const) {
      this[what].created += sign * report[what].created
      this[what].collected += sign * report[what].collected
    }
  }

  /** What the report has of all this. */
  summary(): Pick<
    SoakReport,
    'outcomes' | 'errors' | 'failures' | 'instances' | 'storages' | 'stores' | 'retained' | 'reload'
  > {
    const { outcomes, instances, storages, stores } = this
    const ms = this.#ms.slice(0, this.#reloads).toSorted()
    const at = (share: number) => Math.round((ms[Math.floor(ms.length * share)] ?? 0) * 10) / 10
    return {
      outcomes,
      errors: [...this.errors],
      failures: [...this.failures],
      instances,
      storages,
      stores,
      reload: { median: at(0.5), p95: at(0.95) },
      retained: [...this.#open.values()].map(({ module, name, generation, outcome, retainers }) => ({
        module,
        name,
        generation,
        outcome,
        retainers
      }))
    }
  }
}

/** A report as lines to read. */
export function soakTable(report: SoakReport): string {
  const { root, file, node, seconds, reload, outcomes, alive, heap, cost, grown, failed } = report
  const isBad = (...words: string[]) => failed.some(reason => words.some(word => reason.includes(word)))
  const rows: [name: string, value: string, bad: boolean][] = [
    [
      'reloads',
      Object.entries(outcomes)
        .map(([outcome, n]) => `${n} ${outcome}`)
        .join(', '),
      isBad('succeed')
    ],
    ['', `${reload.median} ms each, 95 of 100 under ${reload.p95} ms`, false],
    ['instances', counted(report.instances), isBad('not released')],
    [
      'storages',
      `${counted(report.storages)}; ${alive.start} → ${alive.end} in use`,
      isBad('not released', 'run no more')
    ],
    ['stores', counted(report.stores), false],
    ['heap', `${bytes(heap.start)} → ${bytes(heap.end)}`, false],
    ['  a reload', sloped(heap.perReload), isBad('heap')],
    ['', heap.background ? `without reloads ${sloped(heap.background)} a second, which is taken off` : '', false],
    ['boundary', priced(cost, 'boundary'), isBad('boundary')],
    ['await', priced(cost, 'await'), isBad('an await')],
    [
      'grown',
      Object.entries(grown)
        .map(([name, more]) => `${name} +${more}`)
        .join(', ') || 'nothing',
      isBad('at the start')
    ]
  ]
  const lines = rows
    .filter(([, value]) => value !== '')
    .map(([name, value, bad]) => `  ${colors.dim(name.padEnd(11))} ${bad ? colors.red(value) : value}`)
  const what = colors.cyan(relative(root, file))
  return [
    `soak of ${what}, ${plural(report.times, 'reload')} in ${seconds} s, Node ${node}`,
    ...lines,
    ...report.errors.map(error => `  ${colors.yellow(error)}`),
    ...report.failures.map(failure => `  ${colors.yellow(failure)}`),
    ...retainedLines(report),
    failed.length > 0 ? colors.red(`failed: ${failed.join('; ')}`) : colors.green('passed')
  ].join('\n')
}

/** So many generations are listed; they rarely differ. */
const LISTED = 3

function retainedLines({ retained, whys, root }: SoakReport): string[] {
  const places = new Map<string, number>()
  for (const retainer of retained.flatMap(({ retainers }) => retainers.map(each => line(each, root))))
    places.set(retainer, (places.get(retainer) ?? 0) + 1)
  const names = retained.slice(0, LISTED).map(({ outcome, name, generation }) => `${outcome} ${name} ${generation}`)
  const more = retained.length > LISTED ? [`and ${retained.length - LISTED} more`] : []
  const head = names.length > 0 ? [`  ${colors.red([...names, ...more].join(', '))}`] : []
  const searched = whys.flatMap(why => whyLine(why, root).split('\n'))
  return [
    ...head,
    ...[...places].map(([retainer, n]) => `    ${n} × ${retainer}`),
    ...searched.map(each => `  ${each}`)
  ]
}

const line = (retainer: Retainer, root: string) => retainerLine(retainer, root)

function counted({ created, collected }: Count): string {
  return `${created} retired, ${created - collected} of them alive`
}

function sloped(slope: Slope | null): string {
  return slope ? `${bytes(slope.value)} ± ${bytes(slope.error)}` : 'too few reloads to tell'
}

function priced({ start, end, ratio }: SoakReport['cost'], what: keyof Cost): string {
  return `${start[what]} → ${end[what]} ns, × ${ratio[what].toFixed(2)}`
}

function bytes(n: number): string {
  const size = Math.abs(n)
  if (size < 10_000) return `${Math.round(n)} B`
  return size < 10_000_000 ? `${(n / 1000).toFixed(1)} kB` : `${(n / 1e6).toFixed(1)} MB`
}
