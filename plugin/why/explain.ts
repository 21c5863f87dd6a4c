/** A way through the heap in a user's words. */
import { findAnchor } from './anchors.ts'
import { isNeighbour } from './async.ts'
import type { At, Code } from './code.ts'
import type { Edge, Heap } from './heap.ts'
import type { Path } from './search.ts'
import { type Anchor, bare, quoted, Way } from './way.ts'

/** One thing on the way, and where it is written. */
export interface WayStep {
  text: string
  at?: At
}

/** What keeps an object. */
export interface Explanation extends WayStep {
  path: WayStep[]
}

/** What the caller knows of the heap. */
export interface Known {
  retired: ReadonlySet<number>
  /** Names of living objects. */
  alive: ReadonlyMap<number, string>
}

/**
 * Blames what the living hold on to the retired by. `path` may go on through retired things (another object of the same
 * generation, a function of a version that was replaced): what holds the first of them holds them all.
 */
export function explain(heap: Heap, code: Code, path: Path, { retired, alive }: Known): Explanation {
  const isRetired = (node: number) => retired.has(node) || code.owner(code.place(node)?.script ?? 'node:') === 'retired'
  const whole = new Way(heap, code, path, alive)
  const cut = path.nodes.findIndex(isRetired)
  const way = cut < 0 ? whole : whole.upTo(cut)
  const { what, at } = findAnchor(way) ?? lastResort(way)
  // Ours to mend, and no provider's.
  const whose = at && code.owner(at.script) === 'own' ? ' (harness-hmr itself)' : ''
  return { text: `${what}${whose}`, at, path: stepsOf(whole) }
}

function lastResort(way: Way): Anchor {
  const { nodes, edges } = way
  if (nodes.some((_, i) => /^\((?:Stack roots|Handle scope|Micro tasks)\)$/.test(way.name(i))))
    return { what: 'a call that runs now' }
  const closure = nodes.findLastIndex((_, i) => way.function(i)?.at)
  if (closure >= 0) {
    const { name, at } = way.function(closure)!
    return { what: `closure${quoted(name)}`, at }
  }
  const property = edges.findLastIndex(({ type }) => type === 'property')
  if (property >= 0) return { what: `property "${edges[property]!.name}" of ${way.name(property)}` }
  return { what: 'V8 or Node itself' }
}

/** Things of V8's that a user has never heard of are left out; the names on the way through them are put together. */
function stepsOf(way: Way): WayStep[] {
  const steps: WayStep[] = []
  let names = ''
  const start = way.edges.findLastIndex(isNeighbour) + 1
  for (const [i, node] of way.nodes.entries()) {
    if (i < start) continue
    if (i > start) names += nameOf(way, i)
    const step = describeStep(way, node, i)
    if (!step) continue
    // A plain container is told by the name of what is in it.
    const isContainer = /^(?:Object|Array)$/.test(step.text) && i < way.nodes.length - 1
    if (isContainer) continue
    steps.push({ text: names ? `${names}: ${step.text}` : step.text, at: step.at })
    names = ''
  }
  return steps
}

function nameOf(way: Way, i: number): string {
  const { type, name }: Edge = way.edges[i - 1]!
  if (type === 'context') return `variable "${name}"`
  if (type === 'property') return String(name).startsWith('<') ? `[${String(name).slice(1, -1)}]` : `.${name}`
  if (type === 'element') return way.name(i - 1).startsWith('(') ? '' : `[${name}]`
  const key = way.name(i - 2) === 'Map' && way.edges[i - 2]?.name === 'table' ? way.key(i) : undefined
  return key === undefined ? '' : `.get(${JSON.stringify(key)})`
}

function describeStep(way: Way, node: number, i: number): WayStep | undefined {
  const { heap, code } = way
  const living = way.alive.get(node)
  if (living !== undefined) return { text: living, at: way.place(node) }
  const script = code.modules.get(node)
  if (script !== undefined && way.edges[i]?.type === 'context')
    return code.owner(script) === 'node' ? undefined : { text: 'module', at: { script } }
  const named = way.function(i)
  if (named) return { text: `function${bare(named.name)}`, at: named.at }
  if (heap.type(node) !== 'object' || heap.isNamed(node, 'system / Context')) return undefined
  const call = way.suspended(node)
  return call ? { text: `suspended function${bare(call.name)}`, at: call.at } : { text: heap.name(node) }
}
