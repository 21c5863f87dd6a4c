/** Entering a storage without leaving it in the caller. */
import { AsyncLocalStorage, AsyncResource } from 'node:async_hooks'

/**
 * True where an `AsyncLocalStorage` puts the store on the current async resource (async_hooks: Node 22 and older, or
 * `--no-async-context-frame`), found by looking: the flags make the version number a bad witness. A resource that is
 * entered twice shows the second time what was put on it the first; a frame is the same each time.
 */
export const STORES_ON_RESOURCE: boolean = (() => {
  const probe = new AsyncLocalStorage<boolean>()
  const resource = new AsyncResource('BoundaryScope')
  resource.runInAsyncScope(() => probe.enterWith(true))
  const found = resource.runInAsyncScope(() => probe.getStore())
  probe.disable()
  return found === true
})()

interface Enterable<S> {
  run<R>(store: S, operation: () => R): R
}

/**
 * Enters a storage and leaves no residue in the caller. With AsyncContextFrame `run()` ends by writing the prior store
 * under its key, so a caller that lives on would keep the storage forever; an AsyncResource gives the caller its own
 * frame back. The older implementation needs no such detour, and pays 15 times for it.
 */
export const enter: <S, R>(storage: Enterable<S>, store: S, operation: () => R) => R = STORES_ON_RESOURCE
  ? (storage, store, operation) => storage.run(store, operation)
  : (storage, store, operation) =>
      new AsyncResource('BoundaryScope', { requireManualDestroy: true }).runInAsyncScope(() =>
        storage.run(store, operation)
      )
