/** The whole page. */
import { Boundaries } from './boundaries.tsx'
import { Charts } from './charts.tsx'
import { Errors } from './errors.tsx'
import { Header } from './header.tsx'
import { StoragePanel } from './ledger.tsx'
import { Now } from './now.tsx'
import { ProviderPanel } from './providers.tsx'
import type { Act, View } from './state.ts'
import { Timeline } from './timeline.tsx'
import { Away, Boot } from './states.tsx'

/** What is shown of a view. Each part is given what it shows and no more, so that the others rest when that changes. */
export function App({ view, act }: { view: View; act: Act }) {
  const { told, connection, ahead } = view
  if (!told) return <Away connection={connection} />
  const {
    root,
    entry,
    fibers,
    files,
    harness,
    storages,
    boundaries,
    progress,
    audits,
    whys,
    reloads,
    samples,
    errors
  } = told
  const isLive = connection === 'live'
  return (
    <>
      <Header view={view} act={act} />
      <main class={isLive ? '' : 'stale'} inert={!isLive}>
        {harness.state === 'running' ? null : <Boot harness={harness} root={root} />}
        <Now told={told} ahead={ahead} act={act} />
        <Charts samples={samples} reloads={reloads} />
        <div class="columns">
          <div class="column">
            <ProviderPanel {...{ fibers, root, entry, act }} broken={files.broken} state={harness.state} />
            <Boundaries {...{ boundaries, progress, root, ahead }} abandoned={told.abandoned} />
          </div>
          <div class="column">
            <Timeline reloads={reloads} root={root} />
            <StoragePanel
              {...{ storages, audits, whys, reloads, fibers, root, act }}
              isSearching={view.task !== undefined}
            />
            <Errors errors={errors} root={root} />
          </div>
        </div>
      </main>
    </>
  )
}
