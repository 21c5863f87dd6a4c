/** What a reload and an audit report, and the one line that the terminal shows of each. Pure. */
import { relative } from 'node:path'
import colors from 'picocolors'
import type { Location } from './script.ts'

/** How a reload can end. */
export const OUTCOMES = ['reloaded', 'restarted', 'kept', 'rolled-back', 'mended', 'ignored'] as const

/** How a reload ended. */
export type Outcome = (typeof OUTCOMES)[number]

/** Why a save was ignored, or why the whole harness restarted: what the code says, in words. */
export const REASONS = {
  unused: 'no running module uses it',
  same: 'unchanged',
  aside: 'no provider uses it',
  entry: 'the entry changed',
  reached: 'the entry is reached without a provider on the path'
} as const

/** A reason for people, and for programs. */
export interface Reason {
  code: keyof typeof REASONS
  message: string
}

/** A reason, with what is particular about it. */
export function reason(code: Reason['code'], detail?: string): Reason {
  return { code, message: detail === undefined ? REASONS[code] : `${REASONS[code]}: ${detail}` }
}

/** The steps of a reload whose time is reported, in their order; the audit comes after and reports by itself. */
export type Step = 'affected' | 'stage' | 'close' | 'drain' | 'disable' | 'install'

/** What went wrong, and where in the user's source. */
export interface ReportError {
  message: string
  /** The step that it happened in; `"boot"` before there was a harness, `"run"` while no reload ran. */
  step: Step | 'boot' | 'run'
  location?: Location
  /** For an evaluation that has not ended: the modules that it hangs on, the innermost first. */
  evaluating?: string[]
  /** For a module that could not be loaded: it, and those that import it, up to the provider. */
  imports?: string[]
  /** What would make it work, where that is known. */
  hint?: string
  /** The lines around the location, with a marker. */
  frame?: string
  /** With original places. */
  stack?: string
}

/** What became of one provider module. */
export interface ProviderReport {
  /** Absolute path. */
  module: string
  /** The service that it provides, else the plugin's name. */
  name: string
  /** The generation that ran before. */
  from: number
  /** The generation that runs now: after a failure another one of the old code, or `from`; `null` for one that was removed. */
  to: number | null
  /** Applications of its plugins before, and how many of those that were active then are active now. */
  instances: number
  active: number
  /** Boundaries of its scopes: waited for, let go because the reload was started inside, still open at the deadline. */
  boundaries: { drained: number; released: number; abandoned: number }
  /** Whether the reload went on at the deadline although an old instance was not gone yet. */
  abandoned: boolean
}

/** What became of one row of a configuration file. */
export interface RowReport {
  id: string
  /** Its id if it has one in the file, else its name. */
  row: string
  /** The module that it names. */
  name: string
  change: 'added' | 'removed' | 'replaced' | 'configured' | 'enabled' | 'disabled'
  /** Absolute path of the file that it is in. */
  file: string
}

/** One reload, JSON-safe. Independent facts are separate fields: a drain may be abandoned in a reload that succeeded. */
export interface ReloadReport {
  type: 'reload'
  /** Counts from 1 in one dev server. */
  id: number
  /** When it ended, as `Date.now()` counts. */
  time: number
  /** Absolute paths of the files whose change asked for it. */
  cause: string[]
  outcome: Outcome
  /** Why it was ignored, or why the whole harness restarted. */
  reason?: Reason
  error?: ReportError
  /** The same is tried again, without the files that had failed before; that report follows. */
  retried?: true
  /** What failed beside, and did not stop the reload: disposers, an old version that did not come back. */
  failures: string[]
  providers: ProviderReport[]
  /** For a configuration file: the rows that it changed, or would have. */
  rows?: RowReport[]
  /** Milliseconds per step that was reached. */
  ms: Partial<Record<Step, number>>
}

/** What keeps something of a retired generation, or what that has left running; JSON-safe. */
export interface Retainer {
  /** In words, e.g. `setInterval`, `net.Server`, `module-level array "history"`. */
  what: string
  /** Where it was created or is written, in the user's source. */
  location?: Location
  /** The way from a root of the heap to the retired object, in words; only where it was searched in the heap. */
  path?: string[]
}

/** A storage that a living generation shares with one that was retired. */
export interface SharedStorage {
  /** Where it was created. */
  location?: Location
  /** Those who live, with their generations, e.g. `"audit 2"`. */
  by: string
}

/** What became of one retired generation, JSON-safe. */
export interface AuditReport {
  type: 'audit'
  /** The reload that retired it. */
  reload: number
  module: string
  name: string
  generation: number
  outcome: 'collected' | 'retained' | 'pending'
  /** Its code serves again, in other instances: only its old instances are looked at. */
  serves?: true
  /** Applications of its plugins, with the services that they provided. */
  instances: Count
  /** AsyncLocalStorages. */
  storages: Count
  /** Objects that its storages have carried. One that lives on may belong to somebody else: they are no part of the verdict. */
  stores: Count
  /** Where the storages were created that it did not disable; that was done for it. */
  forgotten: Location[]
  /** The storages that it created and others have entered who live: they have become theirs, and are not counted. */
  shared: SharedStorage[]
  /** What it has left running, and what keeps it, as far as that is known without a search through the heap. */
  retainers: Retainer[]
}

/** How many objects there were, and how many of them are known to be gone. */
export interface Count {
  created: number
  collected: number
}

/** What a search through the heap has found to keep a retired generation, JSON-safe. */
export interface WhyReport {
  type: 'why'
  module: string
  name: string
  generation: number
  /** One per retired object that is still reachable; none when there is none. */
  found: { object: string; retainer: Retainer }[]
  /** Milliseconds that the search took, and those of them that the process stood still. */
  ms: { total: number; blocked: number }
}

const OUTCOME_COLOR: Record<Outcome | AuditReport['outcome'], (text: string) => string> = {
  reloaded: colors.green,
  restarted: colors.green,
  kept: colors.yellow,
  'rolled-back': colors.red,
  mended: colors.green,
  ignored: colors.dim,
  collected: colors.dim,
  retained: colors.red,
  pending: colors.yellow
}

/** Whether the newest content runs, or is nothing that would have to. */
export function isSuccess({ outcome }: ReloadReport): boolean {
  return outcome !== 'kept' && outcome !== 'rolled-back'
}

/** What a save has mended: what failed before is again the content that runs. */
export function mended(report: ReloadReport, failed: readonly ProviderReport[]): ReloadReport {
  const providers = failed.map(provider => ({
    ...provider,
    from: provider.to ?? provider.from,
    boundaries: { drained: 0, released: 0, abandoned: 0 },
    abandoned: false
  }))
  return { ...report, outcome: 'mended', providers }
}

/** Whether a save is not worth a line: most saved files are not the harness', or are saved as they are. */
export function isQuiet({ outcome, reason }: ReloadReport): boolean {
  return outcome === 'ignored' && (reason?.code === 'unused' || reason?.code === 'same')
}

/** The line of a reload, e.g. `reloaded agents 4 → 5  providers/agents.ts  stage 6 ms · drain 212 ms (2 boundaries) · install 3 ms`. */
export function reloadLine(report: ReloadReport, root: string): string {
  const { outcome, error, reason } = report
  // What is abandoned still runs beside its successor.
  const isLeft = report.providers.some(({ abandoned }) => abandoned) && isSuccess(report)
  const subjects = report.rows?.map(({ row }) => colors.bold(row)) ?? report.providers.map(generations)
  const head =
    outcome === 'reloaded' && report.rows?.length
      ? rowsLine(report.rows)
      : [(isLeft ? colors.yellow : OUTCOME_COLOR[outcome])(outcome), ...subjects].join(' ')
  const files = report.cause.map(file => shorten(file, root)).join(', ')
  const failed = report.failures.map(message => `\n  ${colors.yellow(message)}`).join('')
  if (error) {
    const at = error.location ? place(error.location, root) : files
    const importers = (error.imports ?? []).slice(1).filter(file => file !== error.location?.file)
    const chain = importers.map(file => ` ← ${shorten(file, root)}`)
    const below = [error.frame, error.hint].map(text => (text ? `\n${text}` : '')).join('')
    return `${head}  ${colors.cyan(at)} ${error.message}${colors.dim(chain.join(''))}  ${colors.dim(`(${goesOn(report)})`)}${below}${failed}`
  }
  if (outcome === 'ignored' || outcome === 'mended')
    return `${head}  ${colors.cyan(files)}  ${colors.dim(reason?.message ?? '')}`
  return `${head}  ${colors.cyan(files)}  ${colors.dim([reason?.message, ...times(report)].filter(Boolean).join(' · '))}${failed}`
}

/** The line of an audit, e.g. `collected agents 4  1 storage, 3 stores, 1 instance`. */
export function auditLine({ outcome, name, generation, serves, ...report }: AuditReport, root: string): string {
  const { storages, stores, instances, forgotten, shared, retainers } = report
  const counts = [
    count(storages, outcome, 'storage'),
    // Who else holds what was carried is no concern of this line, unless nobody does.
    outcome === 'collected' && stores.created > 0 ? `${stores.collected} of ${plural(stores.created, 'store')}` : '',
    count(instances, outcome, 'instance')
  ].filter(Boolean)
  const places = forgotten.map(location => colors.cyan(place(location, root)))
  const disabled = places.length > 0 ? `  ${colors.dim('disabled for it:')} ${places.join(', ')}` : ''
  const users = shared.map(({ location, by }) =>
    [location && colors.cyan(place(location, root)), colors.dim(`with ${by}`)].filter(Boolean).join(' ')
  )
  const notes = disabled + (users.length > 0 ? `  ${colors.dim('shared:')} ${users.join(', ')}` : '')
  const named = retainers.map(retainer => `\n  ${retainerLine(retainer, root)}`).join('')
  const again = serves ? 'of before, its code serves again' : ''
  const head = [`${OUTCOME_COLOR[outcome](outcome)} ${name} ${generation}`, counts.join(', '), colors.dim(again)]
    .filter(Boolean)
    .join('  ')
  return `${head}${notes}${named}`
}

/** What keeps something, and where it is written, e.g. `setInterval  providers/agents.ts:12:5`. */
export function retainerLine({ what, location }: Retainer, root: string): string {
  return location ? `${what}  ${colors.cyan(place(location, root))}` : what
}

/** What a search has found, one line an object, and the way to it. */
export function whyLine({ name, generation, found, ms }: WhyReport, root: string): string {
  const head = `${colors.bold(`${name} ${generation}`)} is kept`
  const lines = found.map(({ object, retainer }) => {
    const way = retainer.path?.length ? `\n    ${colors.dim(retainer.path.join(' → '))}` : ''
    return `\n  ${object}: ${retainerLine(retainer, root)}${way}`
  })
  const took = ms.total > 0 ? `  ${colors.dim(`searched in ${(ms.total / 1000).toFixed(1)} s`)}` : ''
  return found.length > 0 ? `${head}${took}${lines.join('')}` : `${head}; no retainer was found${took}`
}

/** A place in a source file as the terminal shows it. */
export function place({ file, line, column }: Location, root: string): string {
  return `${shorten(file, root)}:${line}:${column}`
}

/** A number and its noun. */
export function plural(n: number, noun: string): string {
  const ending = n === 1 ? noun : noun.endsWith('y') ? `${noun.slice(0, -1)}ies` : `${noun}s`
  return `${n} ${ending}`
}

function count(
  { created, collected }: { created: number; collected: number },
  outcome: AuditReport['outcome'],
  noun: string
): string {
  if (created === 0 || (outcome === 'retained' && created === collected)) return ''
  return outcome === 'collected' ? plural(created, noun) : `${created - collected} of ${plural(created, noun)}`
}

function generations({ name, from, to }: ProviderReport): string {
  if (to === null) return `${colors.yellow('removed')} ${colors.bold(`${name} ${from}`)}`
  return colors.bold(from === to ? `${name} ${from}` : `${name} ${from} → ${to}`)
}

/** What became of rows, e.g. `configured greeter, added calc and clock`. */
function rowsLine(rows: RowReport[]): string {
  const changes = [...new Set(rows.map(({ change }) => change))]
  return changes
    .map(change => {
      const names = rows.filter(row => row.change === change).map(({ row }) => colors.bold(row))
      return `${colors.green(change)} ${names.join(' and ')}`
    })
    .join(', ')
}

/** What runs after a failure. */
function goesOn({ outcome, providers, rows }: ReloadReport): string {
  if (rows) return outcome === 'kept' ? 'the old rows go on' : 'the old rows are back'

  if (outcome !== 'rolled-back') return 'the old version goes on'
  const down = providers.filter(({ instances, active }) => instances > 0 && active === 0).map(({ name }) => name)
  return down.length > 0 ? `nothing runs of ${down.join(', ')}` : 'the old version is back'
}

function times({ ms, providers }: ReloadReport): string[] {
  const drained = providers.reduce((total, { boundaries }) => total + boundaries.drained, 0)
  const left = providers.filter(({ abandoned }) => abandoned).map(({ name, from }) => `${name} ${from} is abandoned`)
  const notes = [drained && plural(drained, 'boundary'), ...left].filter(Boolean)
  const waited = (ms.close ?? 0) + (ms.drain ?? 0)
  return [
    `stage ${Math.round(ms.stage ?? 0)} ms`,
    `drain ${Math.round(waited)} ms${notes.length ? ` (${notes.join(', ')})` : ''}`,
    `install ${Math.round(ms.install ?? 0)} ms`
  ]
}

/** A file as it is named in the terminal: relative to the root, unless it lies outside. */
export function shorten(file: string, root: string): string {
  const short = relative(root, file)
  return short.startsWith('..') ? file : short
}
