/** Storages and instances by generation: what lives, and what became of what was retired. */
import type { AuditReport, Count, Retainer, WhyReport } from '../../report/report.ts'
import type { LiveStorages, Snapshot } from '../server/protocol.ts'
import type { Act } from './state.ts'
import { duration, plural, whole } from './format.ts'
import { memo } from './memo.ts'
import { SourceLink } from './place.tsx'
import { generationKey } from './state.ts'

/** How many collected generations are listed, newest first. */
const COLLECTED = 6
/** How many of those that are not. */
const LEFT = 40

interface Shown extends Pick<Snapshot, 'storages' | 'audits' | 'whys' | 'root'> {
  isSearching: boolean
  act: Act
}

/** The ledger: what is left first. */
export const StoragePanel = memo(function StoragePanel(told: Shown) {
  const audits = told.audits.toReversed()
  const left = audits.filter(({ outcome }) => outcome !== 'collected')
  const collected = audits.filter(({ outcome }) => outcome === 'collected')
  const current = told.storages.filter(({ isCurrent }) => isCurrent)
  const judged = new Set(audits.map(generationKey))
  const waiting = told.storages.filter(group => !group.isCurrent && !judged.has(generationKey(group)))
  const isEmpty = audits.length + told.storages.length === 0
  return (
    <section class="panel" aria-labelledby="ledger">
      <h2 id="ledger">
        Storages <span class="count">{whole(told.storages.reduce((sum, { storages }) => sum + storages, 0))}</span>
      </h2>
      {isEmpty ? (
        <p class="empty">No AsyncLocalStorage is alive, and no generation was retired.</p>
      ) : (
        <div class="table">
          <table>
            <thead>
              <tr>
                <th scope="col">generation</th>
                <th scope="col">verdict</th>
                <th scope="col" class="number">
                  instances
                </th>
                <th scope="col" class="number">
                  storages
                </th>
                <th scope="col" class="number">
                  stores
                </th>
              </tr>
            </thead>
            <tbody>
              {left.slice(0, LEFT).map(report => (
                <Verdict key={generationKey(report)} report={report} told={told} />
              ))}
              {left.length > LEFT && <More n={left.length - LEFT} what="not collected" />}
              {waiting.map(group => (
                <LiveGroup key={generationKey(group)} group={group} word="retired" />
              ))}
              {current.map(group => (
                <LiveGroup key={generationKey(group)} group={group} word="runs" />
              ))}
              {collected.slice(0, COLLECTED).map(report => (
                <Verdict key={generationKey(report)} report={report} told={told} />
              ))}
              {collected.length > COLLECTED && <More n={collected.length - COLLECTED} what="collected" />}
            </tbody>
          </table>
        </div>
      )}
    </section>
  )
})

function LiveGroup({ group, word }: { group: LiveStorages; word: string }) {
  const { name, generation, storages, open } = group
  return (
    <tr>
      <th scope="row">
        {name} {generation}
      </th>
      <td>
        <span class={`verdict ${word}`}>{word}</span>
      </td>
      <td class="number" />
      <td class="number">{whole(storages)}</td>
      <td class="number dim">{open > 0 ? `${whole(open)} open` : ''}</td>
    </tr>
  )
}

function More({ n, what }: { n: number; what: string }) {
  return (
    <tr class="dim">
      <td colSpan={5}>
        {whole(n)} more {what}
      </td>
    </tr>
  )
}

function Verdict({ report, told }: { report: AuditReport; told: Shown }) {
  const { module, name, generation, outcome, instances, storages, stores, retainers } = report
  const isCollected = outcome === 'collected'
  const why = told.whys.find(found => generationKey(found) === generationKey(report))
  return (
    <>
      <tr class={isCollected ? 'dim' : ''}>
        <th scope="row">
          {name} {generation}
        </th>
        <td>
          <span class={`verdict ${outcome}`}>{outcome}</span>
          {outcome === 'retained' && (
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
        <Counted count={instances} outcome={outcome} />
        <Counted count={storages} outcome={outcome} />
        <Counted count={stores} outcome={outcome} />
      </tr>
      {(retainers?.length > 0 || why) && (
        <tr class="why-row">
          <td colSpan={5}>
            <ul class="plain retainers">
              {retainers?.map((retainer, i) => (
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

function Counted({ count, outcome }: { count: Count | undefined; outcome: AuditReport['outcome'] }) {
  const { created = 0, collected = 0 } = count ?? {}
  const isLeft = outcome === 'retained' && collected < created
  return (
    <td class={`number ${isLeft ? 'bad' : ''}`}>
      {created === 0
        ? ''
        : outcome === 'collected'
          ? whole(created)
          : `${whole(created - collected)} of ${whole(created)}`}
    </td>
  )
}

function RetainerLine({ retainer, root }: { retainer: Retainer; root: string }) {
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

function Why({ report, root }: { report: WhyReport; root: string }) {
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
