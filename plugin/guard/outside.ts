/** An async context that belongs to nobody. */
import { AsyncResource } from 'node:async_hooks'

const nobody = new AsyncResource('harness-hmr')

/**
 * Runs an operation outside of every boundary, also when called inside of one: what it starts and keeps (a watcher, a
 * pool, an audit) would otherwise keep that boundary.
 */
export function outside<R>(operation: () => R): R {
  return nobody.runInAsyncScope(operation)
}
