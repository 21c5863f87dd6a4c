/** The harness as a tree: every plugin that is applied, below the one that has applied it. */
import type { FiberNode, Snapshot } from '../server/protocol.ts'
import type { Act } from './state.ts'
import { whole } from './format.ts'
import { memo } from './memo.ts'
import { SourceLink } from './place.tsx'

/** How many nodes are shown; more than that nobody reads. */
const SHOWN = 400

interface Shown extends Pick<Snapshot, 'fibers' | 'root' | 'entry'> {
  state: Snapshot['harness']['state']
  /** Modules whose newest content does not run. */
  broken: string[]
  act: Act
}

/** The tree, with what can be done to a provider. */
export const ProviderPanel = memo(function ProviderPanel(shown: Shown) {
  const { fibers, state } = shown
  const counted = count(fibers)
  const room = { left: SHOWN }
  return (
    <section class="panel" aria-labelledby="providers">
      <h2 id="providers">
        Providers <span class="count">{whole(counted.fibers)}</span>
      </h2>
      {fibers.length === 0 ? (
        <p class="empty">{state === 'running' ? 'The harness applies no plugin.' : 'No harness runs.'}</p>
      ) : (
        <Nodes nodes={fibers} shown={shown} room={room} />
      )}
      {counted.nodes > SHOWN && <p class="more dim">and {whole(counted.nodes - SHOWN)} more</p>}
    </section>
  )
})

interface Tree {
  nodes: FiberNode[]
  shown: Shown
  room: { left: number }
}

function Nodes({ nodes, shown, room }: Tree) {
  return (
    <ul class="tree">
      {nodes.map(node => {
        if (room.left-- <= 0) return null
        return (
          <li key={node.key}>
            <Node node={node} shown={shown} />
            {node.children.length > 0 && <Nodes nodes={node.children} shown={shown} room={room} />}
          </li>
        )
      })}
    </ul>
  )
}

function Node({ node, shown }: { node: FiberNode; shown: Shown }) {
  const { root, entry, broken, act } = shown
  const { name, generation, module, states, provides, waitsFor } = node
  const total = Object.values(states).reduce((sum, n) => sum + n, 0)
  const odd = Object.entries(states).filter(([state]) => state !== 'active')
  const state = states.failed ? 'failed' : odd.length > 0 ? odd[0]![0] : 'active'
  const isDirty = module !== undefined && broken.includes(module)
  const others = provides.filter(service => service !== name)
  const isEntry = module === entry
  return (
    <div class="node">
      <span class={`dot ${state}`} aria-hidden="true" />
      <span class="node-name">{name}</span>
      {generation !== undefined && (
        // New with each generation, so that the change is seen.
        <span key={generation} class="generation" aria-label={`generation ${generation}`}>
          {generation}
        </span>
      )}
      {total > 1 && <span class="times">×{whole(total)}</span>}
      <span class="sr">{odd.length === 0 ? 'active' : ''}</span>
      {odd.map(([name, n]) => (
        <span key={name} class={`state ${name}`}>
          {total > 1 ? `${whole(n)} ${name}` : name}
        </span>
      ))}
      {waitsFor.length > 0 && <span class="dim">waits for {waitsFor.join(', ')}</span>}
      {others.length > 0 && <span class="services dim">{others.join(' ')}</span>}
      {isDirty && <span class="state kept">its newest content does not run</span>}
      <span class="node-end">
        {module !== undefined && <SourceLink at={{ file: module }} root={root} />}
        {module !== undefined && (
          <button
            type="button"
            class="icon"
            title={isEntry ? 'Restart the harness' : `Reload ${name}`}
            aria-label={isEntry ? 'Restart the harness' : `Reload ${name}`}
            onClick={() => act({ do: 'reload', module })}
          >
            <svg viewBox="0 0 16 16" aria-hidden="true">
              <path d="M13.2 6.5A5.5 5.5 0 1 0 13.4 9.4M13.4 2.8v3.9H9.5" />
            </svg>
          </button>
        )}
      </span>
    </div>
  )
}

function count(nodes: FiberNode[]): { nodes: number; fibers: number } {
  const sum = { nodes: 0, fibers: 0 }
  for (const { states, children } of nodes) {
    const below = count(children)
    sum.nodes += 1 + below.nodes
    sum.fibers += below.fibers + Object.values(states).reduce((total, n) => total + n, 0)
  }
  return sum
}
