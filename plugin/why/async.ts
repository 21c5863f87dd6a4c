/** What keeps an object because it goes on later: timers, suspended functions, promises, and the async context of each. */
import type { Edge } from './heap.ts'
import { article, bare, type Anchor, type Finder, type FunctionAt, quoted, type Way } from './way.ts'

/** Timers of one duration are a list: one keeps the next only as far as V8 is concerned. */
export function isNeighbour({ name }: Edge): boolean {
  return name === '_idleNext' || name === '_idlePrev'
}

/** A timer, but not for what is after it in its list. */
export const timer: Finder = (way, i) => {
  const edge = way.edges[i]
  return !edge || isNeighbour(edge) ? undefined : describeTimer(way, way.nodes[i]!)
}

/** A call that waits to be resumed. */
export const suspendedCall: Finder = (way, i) => {
  const found = way.suspended(way.nodes[i]!)
  if (!found) return undefined
  // What awaits is resumed through a closure of V8's, in whose scope it stands.
  const awaits = way.edges[i - 1]?.name === 'extension'
  return { what: `${awaits ? 'async function' : 'generator'}${bare(found.name)}, suspended`, at: found.at }
}

/** A callback of the user's that waits for a promise. */
export const promiseCallback: Finder = (way, i) => {
  if (way.name(i) !== 'system / PromiseReaction') return undefined
  const found = way.function(i + 1)
  return found?.at && { what: `callback${quoted(found.name)} of a promise that is not settled`, at: found.at }
}

/** Node 24 and later keep the values of storages in a frame, which is a Map; before, each resource has them. */
export const asyncContext: Finder = (way, i) => {
  const isFrame = way.name(i) === 'AsyncContextFrame' && way.type(i) === 'object'
  if (!isFrame && way.edges[i]?.name !== '<symbol kResourceStore>') return undefined
  // A promise of a suspended function's, say, is held by that.
  for (let at = i; at >= Math.max(0, i - 3); at--) {
    const carrier = describeCarrier(way, way.nodes[at]!)
    if (carrier) return { what: `async context of ${carrier.what}`, at: carrier.at }
  }
  // A resource may keep its values in an object of their own.
  const handle = way.nodes.slice(0, isFrame ? i : i + 1).findLast(node => !way.heap.isNamed(node, 'Object'))!
  // Node's handles know the object that the user has.
  const holder = way.heap.name(way.heap.get(handle, '<symbol owner_symbol>') ?? handle)
  if (holder === '(Global handles)') return { what: 'async context of a handle of Node itself' }
  return { what: `async context of ${holder.startsWith('(') ? 'what runs now' : article(holder)}` }
}

/** `setTimeout`, `setInterval` or `setImmediate`, with the place of its callback, or of what awaits it. */
function describeTimer(way: Way, node: number): Anchor | undefined {
  const { heap } = way
  const kind = heap.type(node) === 'object' ? heap.name(node) : ''
  if (kind !== 'Timeout' && kind !== 'Immediate') return undefined
  // A number where it repeats, which small ones are not shown of, else null.
  const repeat = heap.get(node, '_repeat')
  const once = repeat !== undefined && heap.type(repeat) === 'hidden'
  const what = kind === 'Immediate' ? 'setImmediate' : once ? 'setTimeout' : 'setInterval'
  const callback = heap.get(node, kind === 'Timeout' ? '_onTimeout' : '_onImmediate')
  const at = callback === undefined ? undefined : way.describe(callback).at
  if (at || callback === undefined) return { what, at }
  // A promise is resolved by the callback, or by what that is given (`node:timers/promises`).
  const args = heap.get(node, kind === 'Timeout' ? '_timerArgs' : '_argv')
  const resolvers = [callback, ...(args === undefined ? [] : way.closures(args))]
  const call = awaitingAny(way, scopesOf(way, resolvers))
  return call ? { what: `${what} that function${bare(call.name)} awaits`, at: call.at } : { what }
}

function describeCarrier(way: Way, node: number): Anchor | undefined {
  const found = describeTimer(way, node)
  if (found) return { what: `a ${found.what}`, at: found.at }
  const callbacks = way.heap.isNamed(node, 'system / PromiseReaction') ? way.closures(node) : []
  const named = callbacks.map(closure => way.describe(closure)).find(({ at }) => at)
  if (named) return { what: `the callback${quoted(named.name)} of a promise`, at: named.at }
  const call = way.suspended(node) ?? awaiting(way, node)
  return call && { what: `the suspended function${bare(call.name)}`, at: call.at }
}

/** So many promises that are each resolved with the next are followed. */
const CHAIN = 5

/** The function that awaits a promise, or its reaction, itself or through promises that are resolved with it. */
function awaiting(way: Way, node: number, depth = 0): FunctionAt | undefined {
  const { heap } = way
  const reaction = heap.isNamed(node, 'Promise') ? heap.get(node, 'reactions_or_result') : node
  if (depth === CHAIN || reaction === undefined || !heap.isNamed(reaction, 'system / PromiseReaction')) return undefined
  const scopes = scopesOf(way, way.closures(reaction))
  const call = scopes.map(scope => heap.get(scope, 'extension')).find(found => found !== undefined)
  return call === undefined ? awaitingAny(way, [reaction, ...scopes], depth + 1) : way.suspended(call)
}

/** The same for any of the promises that are held. */
function awaitingAny(way: Way, holders: number[], depth = 0): FunctionAt | undefined {
  return holders
    .flatMap(holder => way.heap.edges(holder).map(({ to }) => to))
    .filter(to => way.heap.isNamed(to, 'Promise'))
    .map(promise => awaiting(way, promise, depth))
    .find(Boolean)
}

function scopesOf({ heap }: Way, closures: number[]): number[] {
  return closures.flatMap(closure => heap.get(closure, 'context') ?? [])
}
