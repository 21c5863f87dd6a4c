/** What a boundary costs, beside the plain AsyncLocalStorage and beside the usual way to count open runs. */
import { AsyncLocalStorage } from 'node:async_hooks'
import { bench, describe } from 'vitest'
import { BoundaryScope } from '../plugin/scope.ts'

const value = { id: 'ada' }
const storage = new AsyncLocalStorage<object>()
const scope = new BoundaryScope<object>()
const counted = { open: 0, storage: new AsyncLocalStorage<object>() }

describe('a synchronous operation', () => {
  bench('AsyncLocalStorage', () => void storage.run(value, () => 1))
  bench('BoundaryScope', () => void scope.run(value, () => 1))
})

describe('an asynchronous operation', () => {
  const operation = async () => {
    await null
  }
  bench('AsyncLocalStorage', () => storage.run(value, operation))
  bench('AsyncLocalStorage, runs counted by a `then` that hides unhandled rejections', () => {
    counted.open++
    const done = () => void counted.open--
    const result = counted.storage.run(value, operation)
    result.then(done, done)
    return result
  })
  bench('BoundaryScope', () => scope.run(value, operation))
})

describe('a read', () => {
  bench('AsyncLocalStorage', () => storage.run(value, () => void storage.getStore()))
  bench('BoundaryScope', () => scope.run(value, () => void scope.current()))
})
