/** Errors that came while no reload ran. */
import type { Snapshot } from '../server/protocol.ts'
import { ErrorBlock } from './error-block.tsx'
import { timeOfDay } from './format.ts'

/** The newest first; nothing at all where there are none. */
export function Errors({ errors, root }: Pick<Snapshot, 'errors' | 'root'>) {
  if (errors.length === 0) return null
  return (
    <section class="panel" aria-labelledby="errors">
      <h2 id="errors">Errors outside of reloads</h2>
      <ul class="plain errors">
        {errors.toReversed().map((error, i) => (
          <li key={errors.length - i}>
            <time class="dim">{timeOfDay(error.time)}</time>
            <ErrorBlock error={error} root={root} />
          </li>
        ))}
      </ul>
    </section>
  )
}
