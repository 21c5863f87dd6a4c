/** The whole page. */
import type { Command } from '../page-protocol.ts'
import { Boundaries } from './boundaries.tsx'
import { Charts } from './charts.tsx'
import { Errors } from './errors.tsx'
import { Header } from './header.tsx'
import { Ledger } from './ledger.tsx'
import { Now } from './now.tsx'
import { Providers } from './providers.tsx'
import type { View } from './state.ts'
import { Timeline } from './timeline.tsx'
import { Away, Boot } from './states.tsx'

/** Asks the server to do something. */
export type Do = (command: Command) => Promise<void>

/** What is shown of a view. */
export function App({ view, command }: { view: View; command: Do }) {
  const { told, connection } = view
  if (!told) return <Away connection={connection} />
  const isLive = connection === 'live'
  const act = (what: Command) => (isLive ? command(what) : Promise.resolve())
  return (
    <>
      <Header view={view} act={act} />
      <main class={isLive ? '' : 'stale'} inert={!isLive}>
        {told.harness.state === 'running' ? null : <Boot told={told} />}
        <Now told={told} ahead={view.ahead} act={act} />
        <Charts told={told} />
        <div class="columns">
          <div class="column">
            <Providers told={told} act={act} />
            <Boundaries told={told} ahead={view.ahead} />
          </div>
          <div class="column">
            <Timeline told={told} />
            <Ledger told={told} task={view.task} act={act} />
            <Errors told={told} />
          </div>
        </div>
      </main>
    </>
  )
}
