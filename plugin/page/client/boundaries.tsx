/** What is in flight: the open boundaries, how old they are, and where they were opened. */
import type { OpenBoundary, Snapshot } from '../server/protocol.ts'
import type { Location } from '../../report/script.ts'
import { useNow } from './clock.ts'
import { duration, whole } from './format.ts'
import { SourceLink } from './place.tsx'
import { generationKey } from './state.ts'

type Shown = Pick<Snapshot, 'boundaries' | 'progress' | 'abandoned' | 'root'> & { ahead: number }

/** The oldest, and how many there are. */
export function Boundaries({ boundaries, progress, abandoned, root, ahead }: Shown) {
  const { total, oldest } = boundaries
  const now = useNow(oldest.length > 0, ahead)
  const isDraining = progress?.step === 'drain' || progress?.step === 'close'
  const going = new Set(isDraining ? progress.providers.map(generationKey) : [])
  return (
    <section class="panel" aria-labelledby="boundaries">
      <h2 id="boundaries">
        Open boundaries <span class="count">{whole(total)}</span>
      </h2>
      {total === 0 ? (
        <p class="empty">Nothing is in flight.</p>
      ) : (
        <div class="scroll" tabIndex={0} role="group" aria-label="Open boundaries, oldest first">
          <BoundaryRows
            boundaries={oldest}
            now={now}
            root={root}
            isAwaited={boundary => going.has(generationKey(boundary))}
          />
          {total > oldest.length && (
            <p class="more dim">
              the oldest {whole(oldest.length)} of {whole(total)}
            </p>
          )}
        </div>
      )}
      {abandoned.length > 0 && <p class="odd">abandoned, and not ended yet: {abandoned.slice(0, 12).join(', ')}</p>}
    </section>
  )
}

/** The innermost places are those of the scope and of its provider; who has called that says more. */
export function opener(opened: Location[], module?: string): Location | undefined {
  const [innermost] = opened
  return opened.find(({ file }) => file !== innermost!.file && file !== module) ?? opened[1] ?? innermost
}

interface Rows {
  boundaries: OpenBoundary[]
  now: number
  root: string
  /** Whether a drain waits for it. */
  isAwaited: (boundary: OpenBoundary) => boolean
}

/** A row each, with a bar that grows: as long as the oldest of them is the whole width. */
function BoundaryRows({ boundaries, now, root, isAwaited }: Rows) {
  const longest = Math.max(1000, ...boundaries.map(({ since }) => now - since))
  return (
    <ul class="plain boundaries">
      {boundaries.map(boundary => {
        const { key, label, name, generation, since, opened } = boundary
        const age = Math.max(0, now - since)
        const awaited = isAwaited(boundary)
        const place = opener(opened, boundary.module)
        return (
          <li key={key} class={awaited ? 'awaited' : ''}>
            <span class="age-bar" style={{ width: `${((age / longest) * 100).toFixed(1)}%` }} aria-hidden="true" />
            <span class="boundary-label">{label}</span>
            <span class="boundary-owner dim">
              {name} {generation}
            </span>
            <span class="boundary-place">{place && <SourceLink at={place} root={root} />}</span>
            <span class="age">{duration(age)}</span>
          </li>
        )
      })}
    </ul>
  )
}
