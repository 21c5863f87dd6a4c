/** What keeps a retired generation: what the audit knows, and what a search through the heap has found. */
import type { Retainer, WhyReport } from '../../report/report.ts'
import { duration, plural } from './format.ts'
import { SourceLink } from './place.tsx'

/** One of them, with its place, and the way to it where that was searched. */
export function RetainerLine({ retainer, root }: { retainer: Retainer; root: string }) {
  const { what, location, path } = retainer
  return (
    <li>
      <span class="retainer">{what}</span> {location && <SourceLink at={location} root={root} />}
      {path && path.length > 0 && (
        <ol class="path">
          {path.map((part, i) => (
            <li key={i}>{part}</li>
          ))}
        </ol>
      )}
    </li>
  )
}

/** What the search has found. */
export function Why({ report, root }: { report: WhyReport; root: string }) {
  const { found, ms } = report
  return (
    <div class="why">
      <p class="dim">
        {found.length === 0
          ? 'nothing of it is reachable any more'
          : `${plural(found.length, 'object')} still reachable`}
        ; searched for {duration(ms.total)}, stood still for {duration(ms.blocked)}
      </p>
      <ul class="plain retainers">
        {found.slice(0, 20).map(({ object, retainer }, i) => (
          <li key={i}>
            <span class="dim">{object} ← </span>
            <ul class="plain">
              <RetainerLine retainer={retainer} root={root} />
            </ul>
          </li>
        ))}
      </ul>
    </div>
  )
}
