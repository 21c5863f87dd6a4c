/** A way through the heap in a user's words. */
import {
  type Anchor,
  describeFunction,
  findAnchor,
  isNeighbour,
  keyOf,
  suspended,
  userPlace,
  Way
} from './why-anchors.ts'
import type { At, Code } from './why-code.ts'
import type { Edge, Heap } from './why-heap.ts'
import type { Path } from './why-search.ts'

/** One thing on the way, and where it is written. */
export interface Step {
  text: string
  at?: At
}

/** What keeps an object. */
export interface Explanation extends Step {
  path: Step[]
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
  const cut = path.nodes.findIndex(isRetired)
  const end = cut < 0 ? path.nodes.length : cut + 1
  const way = new Way(heap, code, { nodes: path.nodes.slice(0, end), edges: path.edges.slice(0, end - 1) }, alive)
  const { what, at } = findAnchor(way) ?? lastResort(way)
  // Ours to mend, and no provider's.
  const whose = at && code.owner(at.script) === 'own' ? ' (harness-hmr itself)' : ''
  return { text: `${what}${whose}`, at, path: stepsOf(new Way(heap, code, path, alive)) }
}

function lastResort(way: Way): Anchor {
  const { nodes, edges } = way
  if (nodes.some((_, i) => /^\((?:Stack roots|Handle scope|Micro tasks)\)$/.test(way.name(i))))
    return { what: 'a call that runs now' }
  const closure = nodes.findLastIndex((_, i) => way.function(i)?.at)
  if (closure >= 0) {
    const { name, at } = way.function(closure)!
    return { what: `closure${name ? ` "${name}"` : ''}`, at }
  }
  const property = edges.findLastIndex(({ type }) => type === 'property')
  if (property >= 0) return { what: `property "${edges[property]!.name}" of ${way.name(property)}` }
  return { what: 'V8 or Node itself' }
}

/** Things of V8's that a user has never heard of are left out; the names on the way through them are put together. */
function stepsOf(way: Way): Step[] {
  const steps: Step[] = []
  let names = ''
  const start = way.edges.findLastIndex(isNeighbour) + 1
  for (const [i, node] of way.nodes.entries()) {
    if (i < start) continue
    if (i > start) names += nameOf(way, i)
    const step = describe(way, node, i)
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
  const key = way.name(i - 2) === 'Map' && way.edges[i - 2]?.name === 'table' ? keyOf(way, i) : undefined
  return key === undefined ? '' : `.get(${JSON.stringify(key)})`
}

function describe(way: Way, node: number, i: number): Step | undefined {
  const { heap, code } = way
  const living = way.alive.get(node)
  if (living !== undefined) return { text: living, at: userPlace(code, node) }
  const script = code.modules.get(node)
  if (script !== undefined && way.edges[i]?.type === 'context')
    return code.owner(script) === 'node' ? undefined : { text: 'module', at: { script } }
  const type = heap.type(node)
  if (type === 'closure') {
    const { name, at } = describeFunction(way, node)
    return { text: `function${name ? ` ${name}` : ''}`, at }
  }
  if (type !== 'object' || heap.isNamed(node, 'system / Context')) return undefined
  const call = suspended(way, node)
  if (call) return { text: `suspended function${call.name ? ` ${call.name}` : ''}`, at: call.at }
  return { text: heap.name(node) }
}
