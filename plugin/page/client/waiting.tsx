/** Who holds up the reload that runs: who has not parked, what is open, what unloads; and how long that may go on. */
import type { Progress } from '../../report/events.ts'
import type { ShownWaits, Snapshot } from '../server/protocol.ts'
import type { Location } from '../../report/script.ts'
import type { Act } from './state.ts'
import { opener } from './boundaries.tsx'
import { duration, plural, whole } from './format.ts'
import { SourceLink } from './place.tsx'

/** How many are listed; the list of all open boundaries shows more. */
const SHOWN = 10

interface Shown {
  told: Snapshot
  progress: Progress
  now: number
  act: Act
}

/** The bar that grows until the reload goes on without them, the way to have that now, and who they are. */
export function Waiting({ told, progress, now, act }: Shown) {
  const { waits, limits, root } = told
  const isClosing = progress.step === 'close'
  const limit = isClosing ? limits.grace : limits.deadline
  if (!waits || waits.step !== progress.step) return null
  const rows = rowsOf(waits)
  const total = waits.parkingTotal + waits.total + rows.filter(({ kind }) => kind === 'dependent').length
  return (
    <div class="drain">
      <div class="drain-head">
        <Growing
          took={Math.max(0, now - progress.since)}
          limit={limit}
          warnAfter={limits.warnAfter}
          what={progress.step}
        />
        <span class="drain-limit dim">{limit === null ? 'waits for ever' : `goes on after ${duration(limit)}`}</span>
        <button type="button" class="button warn" onClick={() => act({ do: 'abandon' })}>
          {isClosing ? 'Abandon the parking' : 'Abandon the drain'}
        </button>
      </div>
      <p class="waits-said">waits for {said(waits)}</p>
      <ul class="plain waits" aria-label="Who is waited for">
        {rows.slice(0, SHOWN).map(row => (
          <WaitRow key={row.key} row={row} now={now} root={root} />
        ))}
      </ul>
      {total > SHOWN && <p class="dim">and {whole(total - SHOWN)} more</p>}
    </div>
  )
}

interface Row {
  key: string
  /** Who waits for it, or whose it is. */
  by: string
  kind: 'driver' | 'listener' | 'boundary' | 'dependent' | 'disposer'
  name: string
  detail?: string
  since?: number
  at?: Location
}

function rowsOf({ parking, open, unloading }: ShownWaits): Row[] {
  const rows: Row[] = []
  for (const { provider, driver, step } of parking)
    rows.push({
      key: '',
      by: provider,
      kind: driver === undefined ? 'listener' : 'driver',
      name: driver ?? '',
      detail: step
    })
  for (const { name, uses } of unloading)
    if (uses.length > 0) rows.push({ key: '', by: uses.join(', '), kind: 'dependent', name, detail: 'its disposers' })
  for (const { label, provider, since, opened } of open)
    rows.push({ key: '', by: provider, kind: 'boundary', name: label, since, at: opener(opened) })
  // What is replaced unloads anyway: worth a row when there is nothing that it waits for itself.
  if (rows.length === 0)
    for (const { name } of unloading) rows.push({ key: '', by: name, kind: 'disposer', name: 'that has not ended' })
  return rows.map((row, i) => ({ ...row, key: `${row.by} ${row.kind} ${row.name} ${row.since ?? i}` }))
}

function WaitRow({ row, now, root }: { row: Row; now: number; root: string }) {
  const { by, kind, name, detail, since, at } = row
  return (
    <li class={kind}>
      <span class="wait-by">{by}</span>
      <span class="wait-kind dim">{kind}</span>
      <span class="wait-name">{name}</span>
      <span class="wait-detail dim">
        {detail}
        {at && <SourceLink at={at} root={root} />}
      </span>
      <span class="age">{since === undefined ? '' : duration(Math.max(0, now - since))}</span>
    </li>
  )
}

function said({ step, parkingTotal, total, unloading }: ShownWaits): string {
  const dependents = unloading.filter(({ uses }) => uses.length > 0)
  const what = [
    parkingTotal > 0 ? `${whole(parkingTotal)} to park` : '',
    total > 0 ? plural(total, 'open boundary') : '',
    dependents.length > 0 ? plural(dependents.length, 'dependent') : ''
  ]
  return what.filter(Boolean).join(' and ') || (step === 'close' ? 'nobody any more' : 'the last disposer')
}

interface Bar {
  took: number
  limit: number | null
  warnAfter: number | null
  what: string
}

/** What has passed of a limit, when that is called slow, and when the reload goes on. */
function Growing({ took, limit, warnAfter, what }: Bar) {
  const room = limit ?? Math.max(took * 1.5, 10_000)
  const isSlow = warnAfter !== null && took > warnAfter
  return (
    <div
      class={`growing ${isSlow ? 'slow' : ''}`}
      role="progressbar"
      aria-label={`The ${what}, and its limit`}
      aria-valuemin={0}
      aria-valuemax={Math.round(room / 1000)}
      aria-valuenow={Math.min(Math.round(room / 1000), Math.round(took / 1000))}
      aria-valuetext={`${duration(took)}${limit === null ? '' : ` of ${duration(limit)}`}`}
    >
      <span class="growing-inside" style={{ width: `${Math.min(100, (took / room) * 100)}%` }} />
      {warnAfter !== null && warnAfter < room && (
        <span
          class="tick"
          style={{ left: `${(warnAfter / room) * 100}%` }}
          title={`slow after ${duration(warnAfter)}`}
        />
      )}
    </div>
  )
}
