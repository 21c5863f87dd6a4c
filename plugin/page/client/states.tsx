/** What the page shows while it has nothing to show. */
import type { Snapshot } from '../server/protocol.ts'
import { ErrorBlock } from './error-block.tsx'
import type { Connection } from './state.ts'

/** The page before the server has told anything. */
export function Away({ connection }: { connection: Connection }) {
  if (connection === 'refused')
    return (
      <div class="away" role="alert">
        <h1>No connection to the dev server</h1>
        <p>
          The page is there, but nothing answers on Vite’s WebSocket. It may be switched off (<code>server.ws</code>), a
          proxy may not let it through, or the plugin may have been removed from the config.
        </p>
        <button type="button" class="button" onClick={() => location.reload()}>
          Try again
        </button>
      </div>
    )
  return (
    <div class="away" role="status">
      <span class="pulse" aria-hidden="true" />
      <h1>{connection === 'lost' ? 'The dev server has gone' : 'Connecting'}</h1>
      {connection === 'lost' && <p>The page comes back with it.</p>}
    </div>
  )
}

/** Why no harness runs, above what was known of it. */
export function Boot({ harness, root }: Pick<Snapshot, 'harness' | 'root'>) {
  const { state, failed } = harness
  if (state === 'failed')
    return (
      <section class="panel boot failed" role="alert" aria-labelledby="boot">
        <h2 id="boot" class="bad">
          The harness does not run
        </h2>
        {failed && <ErrorBlock error={failed} root={root} />}
        <p class="dim">The next save tries again.</p>
      </section>
    )
  return (
    <section class="panel boot" role="status">
      <span class="pulse" aria-hidden="true" />
      <h2>{state === 'booting' ? 'The harness boots' : 'The harness has stopped'}</h2>
    </section>
  )
}
