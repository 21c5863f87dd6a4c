/** How reloads and audits are put into words. */
import type { AuditReport, ProviderReport, ReloadReport } from 'harness-hmr'
import { openInEditor } from './connection.ts'

type Location = NonNullable<NonNullable<ReloadReport['error']>['location']>

/** The outcome's own word. */
export function OutcomeWord({ outcome }: { outcome: ReloadReport['outcome'] | AuditReport['outcome'] }) {
  return <strong class={`outcome is-${outcome}`}>{outcome}</strong>
}

/** `agents 4 → 5`. */
export function generations({ name, from, to }: Pick<ProviderReport, 'name' | 'from' | 'to'>): string {
  if (to === null) return `${name} ${from} removed`
  return from === to ? `${name} ${from}` : `${name} ${from} → ${to}`
}

/** The milliseconds of a reload. */
export function times({ ms, providers }: ReloadReport): string {
  return `stage ${Math.round(ms.stage ?? 0)} ms · ${waited({ ms, providers })} · install ${Math.round(ms.install ?? 0)} ms`
}

function waited({ ms, providers }: Pick<ReloadReport, 'ms' | 'providers'>): string {
  const drained = providers.reduce((total, { boundaries }) => total + boundaries.drained, 0)
  const boundaries = drained > 0 ? ` (${drained} ${drained === 1 ? 'boundary' : 'boundaries'})` : ''
  return `drain ${Math.round((ms.close ?? 0) + (ms.drain ?? 0))} ms${boundaries}`
}

/** The same in the flow of a conversation, where it is one event among others. */
export function Marker({ report, audits }: { report: ReloadReport; audits: AuditReport[] }) {
  const { outcome, error } = report
  return (
    <>
      <p>
        <OutcomeWord outcome={outcome} /> {report.providers.map(generations).join(', ')}{' '}
        {!error && <span class="quiet">{waited(report)}</span>}
      </p>
      {error && (
        <p>
          {error.location && <Place location={error.location} />} {error.message}
        </p>
      )}
      {error?.frame && (
        <details>
          <summary>the lines</summary>
          <pre class="frame">{error.frame}</pre>
        </details>
      )}
      {audits.map(audit => (
        <Audit key={`${audit.module} ${audit.generation}`} audit={audit} />
      ))}
    </>
  )
}

/** What a reload came to: what runs now, or what went wrong and where. */
export function Outcome({ report, audits }: { report: ReloadReport; audits: AuditReport[] }) {
  const { outcome, error, failures } = report
  return (
    <>
      <p>
        <OutcomeWord outcome={outcome} /> {report.providers.map(generations).join(', ')}
      </p>
      {error ? (
        <Failure error={error} />
      ) : (
        <p class="quiet">{[report.reason?.message, times(report)].filter(Boolean).join(' · ')}</p>
      )}
      {failures.map(message => (
        <p class="quiet" key={message}>
          {message}
        </p>
      ))}
      {audits.map(audit => (
        <Audit key={`${audit.module} ${audit.generation}`} audit={audit} />
      ))}
    </>
  )
}

/** What became of a generation. */
export function Audit({ audit: { outcome, name, generation, retainers } }: { audit: AuditReport }) {
  return (
    <p class="audit">
      <OutcomeWord outcome={outcome} /> {name} {generation}
      {outcome !== 'collected' &&
        retainers?.map(({ what, location }, index) => (
          <span key={index}>
            {' · '}
            {what} {location && <Place location={location} />}
          </span>
        ))}
    </p>
  )
}

function Failure({ error: { message, location, frame } }: { error: NonNullable<ReloadReport['error']> }) {
  return (
    <>
      <p>
        {location && <Place location={location} />} {message}
      </p>
      {frame && <pre class="frame">{frame}</pre>}
    </>
  )
}

/** A place in a source, which opens in the editor. */
export function Place({ location: { file, line, column } }: { location: Location }) {
  return (
    <button type="button" class="place" title="Open in editor" onClick={() => void openInEditor(file, line, column)}>
      {file.split(/[\\/]/).slice(-2).join('/')}:{line}
    </button>
  )
}
