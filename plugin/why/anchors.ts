/** What a user would say keeps an object, found on the way to it: a timer, a listener, a variable of a module, … */
import { asyncContext, promiseCallback, suspendedCall, timer } from './async.ts'
import { cordisListener, emitterListener, targetListener } from './listeners.ts'
import { type Anchor, bare, type Finder, type FunctionAt, quoted, type Way } from './way.ts'

/** The nearest to the retired object is the one to blame: what comes before it keeps only that. */
export function findAnchor(way: Way): Anchor | undefined {
  for (let i = way.nodes.length - 1; i >= 0; i--) {
    for (const find of FINDERS) {
      const anchor = find(way, i)
      if (anchor) return anchor
    }
  }
  return undefined
}

/** What a debugger shows is kept for it, and Node keeps HTTP parsers for the next request: no provider's doing. */
const ofNode: Finder = (way, i) => {
  if (way.name(i) === 'HTTPParser') return { what: 'HTTP parser of Node itself' }
  const edge = way.edges[i - 1]
  const isInspector = edge?.type === 'internal' && /DevTools console|inspector/i.test(String(edge.name))
  return isInspector ? { what: 'the console of a debugger' } : undefined
}

/** Until the stack of an Error is read for the first time, V8 keeps the functions on it and their `this`. */
const unreadStack: Finder = (way, i) => {
  const stack = way.nodes[i + 1]
  if (!way.name(i).endsWith('Error') || stack === undefined || way.heap.type(stack) !== 'array') return undefined
  if (!String(way.edges[i]!.name).startsWith('<symbol')) return undefined
  const frame = way.function(i + 2) ?? functionOfFrame(way, i + 1)
  const holder = findAnchor(way.upTo(i))
  return { what: `stored Error, its stack holds function${quoted(frame?.name)}`, at: holder?.at ?? frame?.at }
}

/** A frame is an object of its own up to Node 22; since then its parts follow each other, the receiver first. */
function functionOfFrame(way: Way, stack: number): FunctionAt | undefined {
  const { heap, nodes, edges } = way
  const frame = nodes[stack + 1]
  if (frame === undefined) return undefined
  const closure = heap.isNamed(frame, 'system / CallSiteInfo')
    ? way.closures(frame)[0]
    : heap.get(nodes[stack], String(Number(edges[stack]!.name) + 1))
  return closure !== undefined && heap.type(closure) === 'closure' ? way.describe(closure) : undefined
}

/** A static field, or what somebody has put on a function. */
const functionProperty: Finder = (way, i) => {
  const edge = way.edges[i]
  const place = way.type(i) === 'closure' && edge?.type === 'property' ? way.code.place(way.nodes[i]!) : undefined
  if (!edge || !place || edge.name === 'prototype' || edge.name === '__proto__') return undefined
  const owner = way.code.owner(place.script)
  if (owner === 'retired' || owner === 'node') return undefined
  const isClass = way.heap.edges(way.nodes[i]!).some(({ to }) => way.heap.isNamed(to, 'system / ClassPositions'))
  const what = isClass ? `static field "${edge.name}" of class` : `property "${edge.name}" of function`
  return { what: `${what}${bare(way.name(i))}`, at: place }
}

/** A living object that the caller has named. */
const livingObject: Finder = (way, i) => {
  const node = way.nodes[i]!
  const name = way.alive.get(node)
  const edge = way.edges[i]
  if (name === undefined || !edge) return undefined
  return { what: edge.type === 'property' ? `property "${edge.name}" of ${name}` : name, at: way.place(node) }
}

const KINDS: Record<string, string> = {
  Array: 'array',
  Map: 'Map',
  Set: 'Set',
  WeakMap: 'WeakMap',
  Object: 'object'
}

/** A variable at the level of a module; one of a version that was replaced keeps nothing, but is kept itself. */
const moduleVariable: Finder = (way, i) => {
  const script = way.code.modules.get(way.nodes[i]!)
  const edge = way.edges[i]
  if (script === undefined || edge?.type !== 'context') return undefined
  const owner = way.code.owner(script)
  if (owner === 'retired') return undefined
  // What Vite calls imports and the default export.
  const name = String(edge.name).replace('__vite_ssr_export_default__', 'default')
  if (name.startsWith('__vi_')) return undefined
  if (owner === 'node') return { what: `variable "${name}" of Node itself` }
  const isLast = i + 1 === way.nodes.length - 1
  const kind = (!isLast && KINDS[way.name(i + 1)]) || 'variable'
  return { what: `module-level ${kind} "${name}"`, at: { script, variable: name } }
}

const globalVariable: Finder = (way, i) => {
  const edge = way.edges[i]
  if (edge?.type !== 'property' || !/^global( |$)/.test(way.name(i)) || way.type(i) !== 'object') return undefined
  const name = String(edge.name)
  // What Node put there keeps nothing of the user's by itself.
  const found = way.function(i + 1)
  if (found && !found.at) return undefined
  return { what: `global variable ${name.startsWith('<') ? name : `"${name}"`}` }
}

/** At one place of the way, the first that matches counts. */
const FINDERS: Finder[] = [
  ofNode,
  asyncContext,
  timer,
  suspendedCall,
  unreadStack,
  emitterListener,
  targetListener,
  cordisListener,
  promiseCallback,
  functionProperty,
  livingObject,
  moduleVariable,
  globalVariable
]
