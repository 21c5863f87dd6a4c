/** The reload that runs, step by step, and who holds it up; or the last one. */
import type { Progress } from '../../report/events.ts'
import type { AuditReport, ReloadReport } from '../../report/report.ts'
import type { Snapshot } from '../server/protocol.ts'
import type { Act } from './state.ts'
import { useNow } from './clock.ts'
import { duration, shorten, timeOfDay } from './format.ts'
import { outcomeClass, STEPS, totalOf } from './steps.tsx'
import { Waiting } from './waiting.tsx'

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
      <Waiting told={told} progress={progress} now={now} act={act} />
    </>
  )
}

function Last({ report, told }: { report: ReloadReport; told: Snapshot }) {
  const verdicts = told.audits.filter(({ reload }) => reload === report.id)
  const isAbandoned = report.providers.some(({ abandoned }) => abandoned)
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
        {isAbandoned && <span class="state kept">drain abandoned</span>}{' '}
        <span class="dim">
          {duration(totalOf(report))} · {timeOfDay(report.time)}
        </span>
      </h2>
      <Track ms={report.ms} failed={report.error?.step} left={isAbandoned} verdicts={verdicts} />
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
  /** Whether the drain was left behind. */
  left?: boolean
  verdicts?: AuditReport[]
}

/** The seven steps in a row. */
function Track({ current, took, ms, failed, left, verdicts }: TrackOptions) {
  const at = STEPS.findIndex(step => step === current)
  return (
    <ol class="track">
      {STEPS.map((step, i) => {
        const state =
          step === failed ? 'broken' : step === current ? 'current' : i < at || ms?.[step] !== undefined ? 'done' : ''
        const isLeft = step === 'drain' && left
        const time = step === current ? took : ms?.[step]
        return (
          <li key={step} class={isLeft ? `${state} left` : state} aria-current={step === current ? 'step' : undefined}>
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
