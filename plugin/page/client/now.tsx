/** The reload that runs, step by step, and what its drain waits for; or the last one. */
import type { Progress } from '../../report/events.ts'
import type { AuditReport, ReloadReport } from '../../report/report.ts'
import type { FiberNode, Snapshot } from '../server/protocol.ts'
import type { Act } from './state.ts'
import { BoundaryRows } from './boundaries.tsx'
import { useNow } from './clock.ts'
import { duration, plural, shorten, timeOfDay, whole } from './format.ts'
import { generationKey } from './state.ts'
import { outcomeClass, STEPS, totalOf } from './steps.tsx'

/** How many boundaries are listed below a drain; the list of all that are open shows more. */
const SHOWN = 8

/** One panel over the whole width. */
export function Now({ told, ahead, act }: { told: Snapshot; ahead: number; act: Act }) {
  const { progress } = told
  const last = told.reloads.findLast(({ outcome }) => outcome !== 'ignored')
  return (
    <section class={`panel now ${progress ? 'running' : ''}`} aria-labelledby="now">
      {progress ? (
        <RunningReload told={told} progress={progress} ahead={ahead} act={act} />
      ) : last ? (
        <Last report={last} told={told} />
      ) : (
        <>
          <h2 id="now">No reload yet</h2>
          <Track />
          <p class="dim">Save a provider’s file: it is replaced in the running process, in these steps.</p>
        </>
      )}
    </section>
  )
}

function RunningReload({
  told,
  progress,
  ahead,
  act
}: {
  told: Snapshot
  progress: Progress
  ahead: number
  act: Act
}) {
  const now = useNow(true, ahead)
  const { step, providers, since, began } = progress
  const who = providers.map(({ name, generation }) => `${name} ${generation}`).join(', ')
  return (
    <>
      <h2 id="now">
        Reloading {who} <span class="dim">{duration(Math.max(0, now - began))}</span>
      </h2>
      <Track current={step} took={Math.max(0, now - since)} />
      {step === 'drain' && <Drain told={told} progress={progress} now={now} act={act} />}
      {step === 'close' && <p class="dim">Drivers may park before the old version is closed.</p>}
    </>
  )
}

/** The growing bar of a drain: what it waits for, when that is called slow, and when the reload goes on without it. */
function Drain({ told, progress, now, act }: { told: Snapshot; progress: Progress; now: number; act: Act }) {
  const { warnAfter, deadline } = told.limits
  const took = Math.max(0, now - progress.since)
  const room = deadline ?? Math.max(took * 1.5, 10_000)
  const going = new Set(progress.providers.map(generationKey))
  const waits = told.boundaries.oldest.filter(boundary => going.has(generationKey(boundary)))
  const open = told.storages
    .filter(group => going.has(generationKey(group)))
    .reduce((sum, group) => sum + group.open, 0)
  const unloading = namesIn(told.fibers, 'unloading')
  const isSlow = warnAfter !== null && took > warnAfter
  return (
    <div class="drain">
      <div class="drain-head">
        <div
          class={`growing ${isSlow ? 'slow' : ''}`}
          role="progressbar"
          aria-label="The drain, and its deadline"
          aria-valuemin={0}
          aria-valuemax={Math.round(room / 1000)}
          aria-valuenow={Math.round(took / 1000)}
          aria-valuetext={`${duration(took)}${deadline === null ? '' : ` of ${duration(deadline)}`}`}
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
        <span class="drain-limit dim">
          {deadline === null ? 'waits forever' : `goes on after ${duration(deadline)}`}
        </span>
        <button type="button" class="button warn" onClick={() => act({ do: 'abandon' })}>
          Abandon the drain
        </button>
      </div>
      <WaitsFor open={open} unloading={unloading} />
      <BoundaryRows boundaries={waits.slice(0, SHOWN)} now={now} root={told.root} isAwaited />
      {open > SHOWN && <p class="dim">and {whole(open - Math.min(SHOWN, waits.length))} more</p>}
    </div>
  )
}

function WaitsFor({ open, unloading }: { open: number; unloading: string[] }) {
  const what = [
    open > 0 ? plural(open, 'open boundary') : '',
    unloading.length > 0 ? `the disposers of ${unloading.slice(0, 6).join(', ')}` : ''
  ].filter(Boolean)
  return <p class="waits">waits for {what.join(' and ') || 'the last disposer'}</p>
}

function Last({ report, told }: { report: ReloadReport; told: Snapshot }) {
  const verdicts = told.audits.filter(({ reload }) => reload === report.id)
  return (
    <>
      <h2 id="now">
        <span class={outcomeClass(report)}>{report.outcome}</span>{' '}
        {report.providers.map(({ module, name, from, to }) => (
          <span key={module} class="generations">
            {name} {from}
            {to === null ? ' removed' : from === to ? '' : ` → ${to}`}
          </span>
        ))}
        {report.providers.some(({ abandoned }) => abandoned) && <span class="state kept">drain abandoned</span>}{' '}
        <span class="dim">
          {duration(totalOf(report))} · {timeOfDay(report.time)}
        </span>
      </h2>
      <Track ms={report.ms} failed={report.error?.step} verdicts={verdicts} />
      <p class="dim cause">{report.cause.map(file => shorten(file, told.root)).join(', ')}</p>
    </>
  )
}

interface TrackOptions {
  /** The step that runs, and since how long. */
  current?: string
  took?: number
  /** What each step took. */
  ms?: ReloadReport['ms']
  failed?: string
  verdicts?: AuditReport[]
}

/** The seven steps in a row. */
function Track({ current, took, ms, failed, verdicts }: TrackOptions) {
  const at = STEPS.findIndex(step => step === current)
  return (
    <ol class="track">
      {STEPS.map((step, i) => {
        const state =
          step === failed ? 'broken' : step === current ? 'current' : i < at || ms?.[step] !== undefined ? 'done' : ''
        const time = step === current ? took : ms?.[step]
        return (
          <li key={step} class={state} aria-current={step === current ? 'step' : undefined}>
            <span class="track-name">{step}</span>
            <span class="track-time">{time === undefined ? '' : duration(time)}</span>
          </li>
        )
      })}
      <li class={verdicts?.length ? `done ${worst(verdicts)}` : ''}>
        <span class="track-name">audit</span>
        <span class="track-time">{verdicts?.length ? worst(verdicts) : ''}</span>
      </li>
    </ol>
  )
}

function worst(verdicts: AuditReport[]): AuditReport['outcome'] {
  for (const outcome of ['retained', 'pending'] as const)
    if (verdicts.some(verdict => verdict.outcome === outcome)) return outcome
  return 'collected'
}

function namesIn(nodes: FiberNode[], state: keyof FiberNode['states']): string[] {
  return nodes.flatMap(node => {
    const n = node.states[state] ?? 0
    return [...(n > 1 ? [`${node.name} ×${whole(n)}`] : n === 1 ? [node.name] : []), ...namesIn(node.children, state)]
  })
}
