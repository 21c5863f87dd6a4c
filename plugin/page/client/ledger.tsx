/** A row for each generation: came, ran, drained, and collected, or kept by whom. */
import type { Snapshot } from '../server/protocol.ts'
import type { Act } from './state.ts'
import { duration, plural, timeOfDay, whole } from './format.ts'
import { type End, ENDS, type Life, lives } from './lives.ts'
import { memo } from './memo.ts'
import { RetainerLine, Why } from './retainers.tsx'
import { generationKey } from './state.ts'

/** How many rows of each end are listed, newest first. */
const SHOWN: Record<End, number> = { retained: 40, pending: 40, retired: 40, runs: 60, collected: 8 }

interface Shown extends Pick<Snapshot, 'storages' | 'audits' | 'whys' | 'root' | 'reloads' | 'fibers'> {
  isSearching: boolean
  act: Act
}

/** The ledger: what is left first. */
export const StoragePanel = memo(function StoragePanel(told: Shown) {
  const all = lives(told)
  return (
    <section class="panel" aria-labelledby="ledger">
      <h2 id="ledger">
        Generations{' '}
        <span class="count">
          {plural(
            told.storages.reduce((sum, { storages }) => sum + storages, 0),
            'live storage'
          )}
        </span>
      </h2>
      {all.length === 0 ? (
        <p class="empty">No provider runs, and none was retired.</p>
      ) : (
        <div class="table" tabIndex={0} role="group" aria-label="The life of each generation">
          <table>
            <thead>
              <tr>
                {['generation', 'came', 'ran', 'drained', 'then', 'objects'].map(name => (
                  <th key={name} scope="col">
                    {name}
                  </th>
                ))}
              </tr>
            </thead>
            <tbody>
              {ENDS.map(end => {
                const some = all.filter(life => life.end === end)
                return (
                  <>
                    {some.slice(0, SHOWN[end]).map(life => (
                      <LifeRow key={generationKey(life)} life={life} told={told} />
                    ))}
                    {some.length > SHOWN[end] && <More key={end} n={some.length - SHOWN[end]} what={end} />}
                  </>
                )
              })}
            </tbody>
          </table>
        </div>
      )}
    </section>
  )
})

function More({ n, what }: { n: number; what: string }) {
  return (
    <tr class="dim">
      <td colSpan={6}>
        {whole(n)} more {what}
      </td>
    </tr>
  )
}

function LifeRow({ life, told }: { life: Life; told: Shown }) {
  const { module, name, generation, end, came, went, audit } = life
  const { retainers = [] } = audit ?? {}
  // A version that was evaluated and not taken has no life.
  const hasRun = went !== undefined || end === 'runs'
  const why = told.whys.find(found => generationKey(found) === generationKey(life))
  return (
    <>
      <tr class={`life ${end === 'collected' ? 'dim' : ''}`}>
        <th scope="row">
          {name} {generation}
        </th>
        <td>
          {came === undefined ? <span class="dim">{hasRun ? 'earlier' : ''}</span> : <time>{timeOfDay(came)}</time>}
        </td>
        <td>{came === undefined || went === undefined ? '' : duration(Math.max(0, went - came))}</td>
        <td>
          <Drained drain={life.drain} />
        </td>
        <td>
          <span class={`verdict ${end}`}>{end}</span>
          {end === 'retained' && (
            <button
              type="button"
              class="button quiet small"
              disabled={told.isSearching}
              aria-label={`Why is ${name} ${generation} retained?`}
              onClick={() => told.act({ do: 'why', module, generation })}
            >
              why?
            </button>
          )}
        </td>
        <td class={end === 'retained' ? 'bad' : ''}>{objects(life)}</td>
      </tr>
      {(retainers.length > 0 || why) && (
        <tr class="why-row">
          <td colSpan={6}>
            <ul class="plain retainers">
              {retainers.map((retainer, i) => (
                <RetainerLine key={i} retainer={retainer} root={told.root} />
              ))}
            </ul>
            {why && <Why report={why} root={told.root} />}
          </td>
        </tr>
      )}
    </>
  )
}

function Drained({ drain }: Pick<Life, 'drain'>) {
  if (!drain) return null
  const { ms, boundaries, abandoned } = drain
  const n = boundaries.drained + boundaries.released + boundaries.abandoned
  return (
    <>
      {duration(ms)}
      {n > 0 && <span class="dim"> · {plural(n, 'boundary')}</span>}
      {abandoned && <span class="state kept"> abandoned</span>}
    </>
  )
}

/** What lives of it, and of one that is gone, how much there was. */
function objects({ audit, live, end }: Life): string {
  if (end === 'runs' || !audit) {
    const { storages = 0, open = 0 } = live ?? {}
    return [storages > 0 ? plural(storages, 'storage') : '', open > 0 ? `${whole(open)} open` : '']
      .filter(Boolean)
      .join(', ')
  }
  const counts = { instance: audit.instances, storage: audit.storages, store: audit.stores }
  const left = Object.entries(counts).map(([noun, { created, collected }]) => {
    const n = end === 'collected' ? created : created - collected
    return n > 0 ? plural(n, noun) : ''
  })
  return [left.filter(Boolean).join(', '), end === 'collected' ? 'gone' : 'left'].join(' ').trim()
}
