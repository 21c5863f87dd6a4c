/** The page's head: which harness this is, whether the page is live, and what can be done to it as a whole. */
import type { Act } from './state.ts'
import { duration, generationOf, shorten } from './format.ts'
import type { Connection, View } from './state.ts'

const CONNECTION: Record<Connection, string> = {
  connecting: 'connecting',
  live: 'live',
  lost: 'reconnecting',
  refused: 'no connection'
}

/** Name, state and actions. */
export function Header({ view, act }: { view: View; act: Act }) {
  const { told, connection, task, notice } = view
  if (!told) return null
  const isLive = connection === 'live'
  const isSearching = task !== undefined
  return (
    <header class="top">
      <div class="brand">
        <Mark />
        <h1>harness-hmr</h1>
        <span class="entry" title={told.entry}>
          {shorten(told.entry, told.root)}
        </span>
      </div>
      <div class="status">
        <span class={`connection ${connection}`} role="status">
          {CONNECTION[connection]}
        </span>
        <span class="versions dim">
          Node {told.versions.node} · Vite {told.versions.vite}
        </span>
      </div>
      <div class="actions">
        <button type="button" class="button" disabled={!isLive} onClick={() => act({ do: 'audit' })}>
          Audit now
        </button>
        <button type="button" class="button" disabled={!isLive || isSearching} onClick={() => act({ do: 'why' })}>
          Why retained?
        </button>
      </div>
      {connection === 'lost' && (
        <p class="banner" role="alert">
          The dev server has gone. The page shows what it knew last, and comes back with it.
        </p>
      )}
      {task && (
        <p class="banner task" role="status">
          <span>
            {task.what === 'why' ? 'Searching the heap' : task.what}: {task.stage}
          </span>
          <progress max={1} value={task.fraction} />
        </p>
      )}
      <p class={`notice ${notice?.isError ? 'bad' : ''}`} role="status">
        {notice?.text}
      </p>
      <p class="sr" role="status">
        {lastOutcome(view)}
      </p>
    </header>
  )
}

/** The newest reload in a sentence, for those who do not see the page. */
function lastOutcome({ told }: View): string {
  const last = told?.reloads.findLast(({ outcome }) => outcome !== 'ignored')
  if (!last) return ''
  const who = last.providers.map(({ name, from, to }) => generationOf({ name, from, to }, 'to'))
  const took = Object.values(last.ms).reduce((sum, ms) => sum + ms, 0)
  return `${last.outcome} ${who.join(', ')} in ${duration(took)}`
}

function Mark() {
  return (
    <svg class="mark" viewBox="0 0 32 32" aria-hidden="true">
      <path class="mark-old" d="M26.5 13A11 11 0 0 0 6.3 10.6M5.6 4.8v6.2h6.2" />
      <path class="mark-new" d="M5.5 19A11 11 0 0 0 25.7 21.4M26.4 27.2V21h-6.2" />
    </svg>
  )
}
