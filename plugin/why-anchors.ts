/** What a user would say keeps an object, found on the way to it: a timer, a listener, a variable of a module, … */
import type { At, Code } from './why-code.ts'
import type { Edge, Heap } from './why-heap.ts'
import type { Path } from './why-search.ts'

/** A thing that keeps what comes after it on the way. */
export interface Anchor {
  what: string
  at?: At
}

/** A way to an object, up to the first thing on it that is retired. */
export class Way {
  readonly heap: Heap
  readonly code: Code
  readonly nodes: number[]
  readonly edges: Edge[]
  /** Names of living objects that the caller knows. */
  readonly alive: ReadonlyMap<number, string>

  constructor(heap: Heap, code: Code, { nodes, edges }: Path, alive: ReadonlyMap<number, string>) {
    this.heap = heap
    this.code = code
    this.nodes = nodes
    this.edges = edges
    this.alive = alive
  }

  name(i: number): string {
    const node = this.nodes[i]
    return node === undefined ? '' : this.heap.name(node)
  }

  type(i: number): string {
    const node = this.nodes[i]
    return node === undefined ? '' : this.heap.type(node)
  }

  /** The function at `i`, or the one that a wrapper there (`once`, `bind`) calls. */
  function(i: number): { name: string; at: At | undefined } | undefined {
    return this.type(i) === 'closure' ? describeFunction(this, this.nodes[i]!) : undefined
  }
}

type Finder = (way: Way, i: number) => Anchor | undefined

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

/** Names a function: of a wrapper (`once`, `bind`, a proxy) the one that it calls. */
export function describeFunction({ heap, code }: Way, node: number): { name: string; at: At | undefined } {
  const wrapped = heap.isNamed(node, 'system / JSProxy')
    ? closuresOf(heap, node)[0]
    : (heap.get(node, 'listener') ?? heap.get(node, 'bound_function'))
  const closure = wrapped !== undefined && heap.type(wrapped) === 'closure' ? wrapped : node
  return { name: heap.type(closure) === 'closure' ? heap.name(closure) : '', at: userPlace(code, closure) }
}

/** Where a function or an object's class is written, unless by Node. */
export function userPlace(code: Code, node: number): At | undefined {
  const place = code.place(node)
  return code.owner(place?.script) === 'node' ? undefined : place
}

/** The function of a suspended call; `undefined` for what is none. */
export function suspended(way: Way, node: number): { name: string; at: At | undefined } | undefined {
  const { heap } = way
  const closure = heap.get(node, 'function')
  return closure !== undefined && heap.get(node, 'parameters_and_registers') !== undefined
    ? describeFunction(way, closure)
    : undefined
}

const quoted = (name: string) => (name ? ` "${name}"` : '')
const bare = (name: string) => (name ? ` ${name}` : '')
const article = (noun: string) => `${/^(?:[AEIOUaeiou]|FS|HTTP)/.test(noun) ? 'an' : 'a'} ${noun}`

/** `setTimeout`, `setInterval` or `setImmediate`, with the place of its callback. */
function describeTimer(way: Way, node: number): Anchor | undefined {
  const { heap } = way
  const kind = heap.type(node) === 'object' ? heap.name(node) : ''
  if (kind !== 'Timeout' && kind !== 'Immediate') return undefined
  const callback = heap.get(node, kind === 'Timeout' ? '_onTimeout' : '_onImmediate')
  // A number where it repeats, which small ones are not shown of, else null.
  const repeat = heap.get(node, '_repeat')
  const once = repeat !== undefined && heap.type(repeat) === 'hidden'
  const what = kind === 'Immediate' ? 'setImmediate' : once ? 'setTimeout' : 'setInterval'
  return { what, at: callback === undefined ? undefined : describeFunction(way, callback).at }
}

/** Timers of one duration are a list: one keeps the next only as far as V8 is concerned. */
export function isNeighbour({ name }: Edge): boolean {
  return name === '_idleNext' || name === '_idlePrev'
}

const timer: Finder = (way, i) => {
  const edge = way.edges[i]
  // Timers of one duration are a list: the neighbour keeps nothing.
  return !edge || edge.name === '_idleNext' || edge.name === '_idlePrev' ? undefined : describeTimer(way, way.nodes[i]!)
}

const suspendedFunction: Finder = (way, i) => {
  const found = suspended(way, way.nodes[i]!)
  if (!found) return undefined
  // What awaits is resumed through a closure of V8's, in whose scope it stands.
  const awaits = way.edges[i - 1]?.name === 'extension'
  return { what: `${awaits ? 'async function' : 'generator'}${bare(found.name)}, suspended`, at: found.at }
}

/** `emitter._events.name`, one function or an array of them. */
const listener: Finder = (way, i) => {
  if (way.edges[i]?.name !== '_events' || !way.edges[i + 1]) return undefined
  const found = way.function(i + 2) ?? way.function(i + 3)
  const event = way.edges[i + 1]!.name
  const emitter = way.name(i)
  if (emitter === 'process')
    return { what: `process.on("${event}") listener${quoted(found?.name ?? '')}`, at: found?.at }
  return { what: `listener${quoted(found?.name ?? '')} on ${article(emitter)}, event "${event}"`, at: found?.at }
}

/** Node's `EventTarget` has a Map of events, and for each a list of `Listener`s. */
const targetListener: Finder = (way, i) => {
  const { heap, nodes } = way
  const callback = way.name(i) === 'Listener' ? heap.get(nodes[i], 'callback') : undefined
  if (callback === undefined) return undefined
  const target = way.edges.findLastIndex(({ name }, at) => at < i && name === '<symbol kEvents>')
  const isSignal = heap.get(nodes[target], '<symbol kAborted>') !== undefined
  const kind = target < 0 ? 'EventTarget' : isSignal ? 'AbortSignal' : way.name(target)
  // Target, Map, its table, an entry.
  const event = target < 0 ? undefined : keyOf(way, target + 3)
  const { name, at } = describeFunction(way, callback)
  return { what: `listener${quoted(name)} on ${article(kind)}${event ? `, event "${event}"` : ''}`, at }
}

/** The key of an entry in the table of a Map, which stands before its value; a number is not shown. */
export function keyOf({ heap, nodes, edges }: Way, i: number): string | undefined {
  const key = heap.get(nodes[i - 1], String(Number(edges[i - 1]?.name) - 1))
  return key !== undefined && heap.type(key) === 'string' ? heap.name(key) : undefined
}

/** Cordis keeps `_hooks[event]`, an array of `{ ctx, callback }`. */
const cordisListener: Finder = (way, i) => {
  const [hooks, event, element] = way.edges.slice(i, i + 3)
  if (hooks?.name !== '_hooks' || element?.type !== 'element') return undefined
  const callback = way.heap.get(element.to, 'callback')
  if (callback === undefined) return undefined
  const { name, at } = describeFunction(way, callback)
  return { what: `listener${quoted(name)} on a Cordis context, event "${event!.name}"`, at }
}

const promiseCallback: Finder = (way, i) => {
  if (way.name(i) !== 'system / PromiseReaction') return undefined
  const found = way.function(i + 1)
  return found?.at && { what: `callback${quoted(found.name)} of a promise that is not settled`, at: found.at }
}

/** Node 24 and later keep the values in a frame, which is a Map; before, each resource has them. */
const asyncContext: Finder = (way, i) => {
  const isFrame = way.name(i) === 'AsyncContextFrame' && way.type(i) === 'object'
  if (!isFrame && way.edges[i]?.name !== '<symbol kResourceStore>') return undefined
  // A promise of a suspended function's, say, is held by that.
  for (let at = i; at >= Math.max(0, i - 3); at--) {
    const carrier = describeCarrier(way, way.nodes[at]!)
    if (carrier) return { what: `async context of ${carrier.what}`, at: carrier.at }
  }
  const handle = way.nodes[isFrame ? i - 1 : i]!
  // Node's handles know the object that the user has.
  const holder = way.heap.name(way.heap.get(handle, '<symbol owner_symbol>') ?? handle)
  if (holder === '(Global handles)') return { what: 'async context of a handle of Node itself' }
  return { what: `async context of ${holder.startsWith('(') ? 'what runs now' : article(holder)}` }
}

function describeCarrier(way: Way, node: number): Anchor | undefined {
  const { heap } = way
  const found = describeTimer(way, node)
  if (found) return { what: `a ${found.what}`, at: found.at }
  const callbacks = heap.isNamed(node, 'system / PromiseReaction') ? closuresOf(heap, node) : []
  const named = callbacks.map(closure => describeFunction(way, closure)).find(({ at }) => at)
  if (named) return { what: `the callback${quoted(named.name)} of a promise`, at: named.at }
  const call = suspended(way, node) ?? awaiting(way, node)
  return call && { what: `the suspended function${bare(call.name)}`, at: call.at }
}

/** So many promises that are each resolved with the next are followed. */
const CHAIN = 5

/** The function that awaits a promise, itself or through promises that are resolved with it. */
function awaiting(way: Way, node: number, depth = 0): { name: string; at: At | undefined } | undefined {
  const { heap } = way
  const reaction = heap.isNamed(node, 'Promise') ? heap.get(node, 'reactions_or_result') : node
  if (depth === CHAIN || reaction === undefined || !heap.isNamed(reaction, 'system / PromiseReaction')) return undefined
  const scopes = closuresOf(heap, reaction).flatMap(closure => heap.get(closure, 'context') ?? [])
  for (const scope of scopes) {
    const call = heap.get(scope, 'extension')
    if (call !== undefined) return suspended(way, call)
  }
  const promises = [reaction, ...scopes].flatMap(holder => heap.edges(holder).map(({ to }) => to))
  return promises
    .filter(to => heap.isNamed(to, 'Promise'))
    .map(promise => awaiting(way, promise, depth + 1))
    .find(Boolean)
}

function closuresOf(heap: Heap, node: number): number[] {
  return heap.edges(node).flatMap(({ to, type }) => (type !== 'weak' && heap.type(to) === 'closure' ? [to] : []))
}

const error: Finder = (way, i) => {
  const stack = way.nodes[i + 1]
  if (!/Error$/.test(way.name(i)) || stack === undefined || way.heap.type(stack) !== 'array') return undefined
  if (!String(way.edges[i]!.name).startsWith('<symbol')) return undefined
  const frame = way.function(i + 2) ?? functionOfFrame(way, i + 1)
  const holder = i > 0 ? findAnchor(new Way(way.heap, way.code, before(way, i), way.alive)) : undefined
  return { what: `stored Error, its stack holds function${quoted(frame?.name ?? '')}`, at: holder?.at ?? frame?.at }
}

const before = ({ nodes, edges }: Way, i: number): Path => ({ nodes: nodes.slice(0, i + 1), edges: edges.slice(0, i) })

/** The frame is an object of its own up to Node 22; since then its parts follow each other, the receiver first. */
function functionOfFrame(way: Way, stack: number): { name: string; at: At | undefined } | undefined {
  const { heap, nodes, edges } = way
  const frame = nodes[stack + 1]
  if (frame === undefined) return undefined
  const isInfo = heap.name(frame) === 'system / CallSiteInfo'
  const closure = isInfo ? closuresOf(heap, frame)[0] : heap.get(nodes[stack], String(Number(edges[stack]!.name) + 1))
  return closure !== undefined && heap.type(closure) === 'closure' ? describeFunction(way, closure) : undefined
}

const KINDS: Record<string, string> = {
  Array: 'array',
  Map: 'Map',
  Set: 'Set',
  WeakMap: 'WeakMap',
  Object: 'object'
}

/** A variable at the level of a module; of one that was replaced, the module's own functions keep it and not it them. */
const variable: Finder = (way, i) => {
  const script = way.code.modules.get(way.nodes[i]!)
  const edge = way.edges[i]
  if (script === undefined || edge?.type !== 'context') return undefined
  const owner = way.code.owner(script)
  if (owner === 'retired') return undefined
  // What Vite calls imports and the default export.
  const name = String(edge.name).replace('__vite_ssr_export_default__', 'default')
  if (name.startsWith('__vi_')) return undefined
  if (owner === 'node') return { what: `variable "${name}" of Node itself` }
  const kind = (i + 1 < way.nodes.length - 1 && KINDS[way.name(i + 1)]) || 'variable'
  return { what: `module-level ${kind} "${name}"`, at: { script, variable: name } }
}

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

const globalVariable: Finder = (way, i) => {
  const edge = way.edges[i]
  if (edge?.type !== 'property' || !/^global( |$)/.test(way.name(i)) || way.type(i) !== 'object') return undefined
  const name = String(edge.name)
  // What Node put there keeps nothing of the user's by itself.
  const found = way.function(i + 1)
  if (found && !found.at) return undefined
  return { what: `global variable ${name.startsWith('<') ? name : `"${name}"`}` }
}

const livingObject: Finder = (way, i) => {
  const node = way.nodes[i]!
  const name = way.alive.get(node)
  const edge = way.edges[i]
  if (name === undefined || !edge) return undefined
  return {
    what: edge.type === 'property' ? `property "${edge.name}" of ${name}` : name,
    at: userPlace(way.code, node)
  }
}

const ownOfNode: Finder = (way, i) => {
  if (way.name(i) === 'HTTPParser') return { what: 'HTTP parser of Node itself' }
  const edge = way.edges[i - 1]
  if (edge && /DevTools console|inspector/i.test(String(edge.name)) && edge.type === 'internal')
    return { what: 'the console of a debugger' }
  return undefined
}

/** At one place of the way, the first that matches counts. */
const FINDERS: Finder[] = [
  ownOfNode,
  asyncContext,
  timer,
  suspendedFunction,
  error,
  listener,
  targetListener,
  cordisListener,
  promiseCallback,
  functionProperty,
  livingObject,
  variable,
  globalVariable
]
