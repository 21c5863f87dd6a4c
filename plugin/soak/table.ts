/** A soak's report as lines to read. Pure. */
import { relative } from 'node:path'
import colors from 'picocolors'
import { type Count, plural, retainerLine, whyLine } from '../report/report.ts'
import type { Cost } from './measure.ts'
import { bytes, type SoakReport } from './report.ts'
import type { Slope } from './slope.ts'

/** A report as lines to read. */
export function soakTable(report: SoakReport): string {
  const { root, file, node, seconds, reload, outcomes, alive, heap, cost, grown, failed, vague } = report
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
    ['  a reload', `${sloped(heap.perReload)}${vague !== null ? ', too vague for the limit' : ''}`, isBad('heap')],
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
    failed.length > 0
      ? colors.red(`failed: ${failed.join('; ')}`)
      : vague === null
        ? colors.green('passed')
        : colors.yellow(`too vague: ${vague}`)
  ].join('\n')
}

/** So many generations are listed; they rarely differ. */
const LISTED = 3

function retainedLines({ retained, whys, root }: SoakReport): string[] {
  const places = new Map<string, number>()
  for (const retainer of retained.flatMap(({ retainers }) => retainers.map(each => retainerLine(each, root))))
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

function counted({ created, collected }: Count): string {
  return `${created} retired, ${created - collected} of them alive`
}

function sloped(slope: Slope | null): string {
  return slope ? `${bytes(slope.value)} ± ${bytes(slope.error)}` : 'too few reloads to tell'
}

function priced({ start, end, ratio }: SoakReport['cost'], what: keyof Cost): string {
  return `${start[what]} → ${end[what]} ns, × ${ratio[what].toFixed(2)}`
}
