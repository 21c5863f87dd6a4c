/** Listeners that keep an object: of an EventEmitter, of an EventTarget, of Cordis. */
import { article, type Finder, quoted } from './way.ts'

/** `emitter._events[event]`: a function, or an array of them. */
export const emitterListener: Finder = (way, i) => {
  const [events, event] = way.edges.slice(i, i + 2)
  if (events?.name !== '_events' || !event) return undefined
  const found = way.function(i + 2) ?? way.function(i + 3)
  const emitter = way.name(i)
  const what =
    emitter === 'process'
      ? `process.on("${event.name}") listener${quoted(found?.name)}`
      : `listener${quoted(found?.name)} on ${article(emitter)}, event "${event.name}"`
  return { what, at: found?.at }
}

/** Node's `EventTarget` has a Map of events, and for each a list of `Listener`s. */
export const targetListener: Finder = (way, i) => {
  const { heap, nodes } = way
  const callback = way.name(i) === 'Listener' ? heap.get(nodes[i], 'callback') : undefined
  if (callback === undefined) return undefined
  const target = way.edges.findLastIndex(({ name }, at) => at < i && name === '<symbol kEvents>')
  const isSignal = heap.get(nodes[target], '<symbol kAborted>') !== undefined
  const kind = target < 0 ? 'EventTarget' : isSignal ? 'AbortSignal' : way.name(target)
  // Target, Map, its table, an entry.
  const event = target < 0 ? undefined : way.key(target + 3)
  const { name, at } = way.describe(callback)
  return { what: `listener${quoted(name)} on ${article(kind)}${event ? `, event "${event}"` : ''}`, at }
}

/** Cordis keeps `_hooks[event]`, an array of `{ ctx, callback }`. */
export const cordisListener: Finder = (way, i) => {
  const [hooks, event, element] = way.edges.slice(i, i + 3)
  if (hooks?.name !== '_hooks' || element?.type !== 'element') return undefined
  const callback = way.heap.get(element.to, 'callback')
  if (callback === undefined) return undefined
  const { name, at } = way.describe(callback)
  return { what: `listener${quoted(name)} on a Cordis context, event "${event!.name}"`, at }
}
