/** The reloads, newest first. */
import { useState } from 'preact/hooks'
import type { ReloadReport } from '../../report/report.ts'
import type { Snapshot } from '../server/protocol.ts'
import { ErrorBlock } from './error-block.tsx'
import { duration, generationOf, plural, shorten, timeOfDay, whole } from './format.ts'
import { memo } from './memo.ts'
import { SourceLink } from './place.tsx'
import { outcomeClass, StepBar, STEPS, totalOf } from './steps.tsx'

/** How many rows are shown at first, and how many more at a time. */
const FIRST = 12
const MORE = 48

/** Nobody wants to read of saves that were none of the harness' business; the terminal shows none either. */
const isShown = ({ outcome, providers }: ReloadReport) => outcome !== 'ignored' || providers.length > 0

/** The list; a row opens to show the rest of its report. */
export const Timeline = memo(function Timeline(told: Pick<Snapshot, 'reloads' | 'root'>) {
  const [shown, setShown] = useState(FIRST)
  const reloads = told.reloads.filter(isShown)
  const visible = reloads.slice(-shown).toReversed()
  const longest = Math.max(1, ...visible.map(totalOf))
  return (
    <section class="panel" aria-labelledby="timeline">
      <h2 id="timeline">
        Reloads <span class="count">{whole(reloads.length)}</span>
      </h2>
      {reloads.length === 0 ? (
        <p class="empty">Nothing was reloaded since the dev server has started.</p>
      ) : (
        <ol class="plain reloads">
          {visible.map((report, i) => (
            <Row key={report.id} report={report} root={told.root} longest={longest} isNewest={i === 0} />
          ))}
        </ol>
      )}
      {reloads.length > shown && (
        <button type="button" class="button quiet" onClick={() => setShown(shown + MORE)}>
          Show {Math.min(MORE, reloads.length - shown)} earlier
        </button>
      )}
    </section>
  )
})

interface RowOf {
  report: ReloadReport
  root: string
  /** Milliseconds of the longest reload that is shown. */
  longest: number
  isNewest: boolean
}

const Row = memo(function Row({ report, root, longest, isNewest }: RowOf) {
  const [chosen, setChosen] = useState<boolean>()
  const isOpen = chosen ?? (isNewest && report.error !== undefined)
  const total = totalOf(report)
  const id = `reload-${report.id}`
  return (
    <li class={`reload ${report.outcome}`}>
      <button type="button" class="row" aria-expanded={isOpen} aria-controls={id} onClick={() => setChosen(!isOpen)}>
        <time class="dim">{timeOfDay(report.time)}</time>
        <span class={outcomeClass(report)}>{report.outcome}</span>
        <span class="row-who">
          {generations(report)}
          {report.failures.length > 0 && <span class="state kept"> {plural(report.failures.length, 'failure')}</span>}
        </span>
        <span class="row-cause dim">
          <bdi>{report.cause.map(file => shorten(file, root)).join(', ')}</bdi>
        </span>
        {/* Its logarithm: beside a drain of seconds a bar of milliseconds would vanish. */}
        <StepBar report={report} share={Math.log1p(total) / Math.log1p(longest)} />
        <span class="row-total">{duration(total)}</span>
      </button>
      {isOpen && <Details id={id} report={report} root={root} />}
    </li>
  )
})

function generations({ providers, reason }: ReloadReport): string {
  const named = providers.slice(0, 3).map(({ name, from, to }) => generationOf({ name, from, to }))
  const more = providers.length > 3 ? ` and ${providers.length - 3} more` : ''
  return named.join(', ') + more || (reason?.message ?? '')
}

/** The whole report, for an issue or a script. */
function CopyJson({ report }: { report: ReloadReport }) {
  const [said, setSaid] = useState('Copy as JSON')
  const copy = async () => {
    try {
      await navigator.clipboard.writeText(JSON.stringify(report, null, 2))
      setSaid('Copied')
    } catch {
      // Where the page is not at localhost or over https, browsers have no clipboard.
      setSaid('The browser does not let a page copy here')
    }
  }
  return (
    <button type="button" class="button quiet small copy" aria-live="polite" onClick={() => void copy()}>
      {said}
    </button>
  )
}

function Details({ id, report, root }: { id: string; report: ReloadReport; root: string }) {
  const { error, reason, failures, providers, ms, cause } = report
  return (
    <div class="details" id={id}>
      <CopyJson report={report} />
      {error && <ErrorBlock error={error} root={root} />}
      {error && (
        <p class="dim">
          failed in <b>{error.step}</b>;{' '}
          {report.outcome === 'rolled-back' ? 'the old version is back' : 'the old version goes on'}
        </p>
      )}
      {reason && <p>{reason.message}</p>}
      <dl class="facts">
        <dt>cause</dt>
        <dd class="places">
          {cause.map(file => (
            <SourceLink key={file} at={{ file }} root={root} />
          ))}
        </dd>
        {STEPS.filter(step => ms[step] !== undefined).map(step => (
          <>
            <dt key={step}>
              <span class={`swatch step ${step}`} aria-hidden="true" />
              {step}
            </dt>
            <dd>{duration(ms[step]!)}</dd>
          </>
        ))}
        {providers.map(({ module, name, from, to, instances, boundaries, abandoned }) => (
          <>
            <dt key={module}>{generationOf({ name, from, to })}</dt>
            <dd>
              {plural(instances, 'instance')}; boundaries: {boundaries.drained} drained, {boundaries.released} released,{' '}
              {boundaries.abandoned} abandoned{abandoned ? '; the drain was abandoned' : ''}
            </dd>
          </>
        ))}
      </dl>
      {failures.length > 0 && (
        <ul class="failures">
          {failures.map((failure, i) => (
            <li key={i}>{failure}</li>
          ))}
        </ul>
      )}
    </div>
  )
}
