import './probe.js'
import { AsyncLocalStorage } from 'node:async_hooks'

globalThis.bench.evaluated++
const VERSION = 0

/** A provider with a drain: it ends when the last operation that it has begun has ended. */
export const name = 'answers'
export function apply(ctx) {
  const storage = new AsyncLocalStorage()
  globalThis.bench.made(storage)
  let open = 0
  let drained
  const left = () => {
    if (--open === 0) drained?.()
  }
  const run = operation => {
    open++
    const result = storage.run({}, operation)
    result.then(left, left)
    return result
  }
  ctx.effect(function* () {
    yield () => storage.disable()
    yield () => new Promise(resolve => (open === 0 ? resolve() : (drained = resolve)))
    yield ctx.reflect.provide('answers', { run, version: () => VERSION })
  })
}
export default { name, apply }
