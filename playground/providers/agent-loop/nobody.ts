import { AsyncResource } from 'node:async_hooks'

const nobody = new AsyncResource('agent loop')

/** Runs `operation` in nobody's chain: who happens to ask for it neither waits in it nor is waited for by it. */
export function asNobody<R>(operation: () => R): R {
  return nobody.runInAsyncScope(operation)
}
