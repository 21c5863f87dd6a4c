import { generations, OutcomeWord, times } from './outcome.tsx'
import type { Model } from './model.ts'

const LINKS = { connecting: 'connecting', waiting: 'no harness yet', open: 'live', lost: 'reconnecting…' }

/** What goes on, in one line. */
export function Header({ model }: { model: Model }) {
  const { link, reports, reloading } = model
  const last = reports.at(-1)
  return (
    <header>
      <h1>
        <span aria-hidden="true">↻</span> Playground
      </h1>
      <p class={`link is-${link}`} role="status">
        {LINKS[link]}
      </p>
      <p class="last" role="status" aria-live="polite">
        {reloading ? (
          <span class="reloading">replacing {reloading.join(', ') || 'a provider'}…</span>
        ) : last ? (
          <>
            <OutcomeWord outcome={last.outcome} /> {last.providers.map(generations).join(', ')}{' '}
            <span class="quiet">{last.error?.message ?? times(last)}</span>
          </>
        ) : (
          <span class="quiet">Save a file in playground/providers while the agents talk, or try an edit here.</span>
        )}
      </p>
      <a class="button" href={`${import.meta.env.BASE_URL}__harness/`}>
        Live page
      </a>
    </header>
  )
}
