import { promiseHooks } from 'node:v8'
import { onTestFinished } from 'vitest'
import { BoundaryScope } from '../plugin/scope.ts'
import { deferred } from './promptly.ts'

/** The labels of the open boundaries, oldest first. */
export const open = (scope: BoundaryScope<string>): string[] => scope.boundaries().map(boundary => boundary.label)

/** A scope of strings, each its own label. */
export const scopeOf = (name = 'test scope') => new BoundaryScope<string>({ name, label: value => value })

/** A boundary that stays open until `resolve()` or `reject()`. */
export function held(scope: BoundaryScope<string>, value: string) {
  const gate = deferred()
  return { ...gate, done: scope.run(value, () => gate.promise) }
}

/** How many promise hooks this test has started, and how many of them run. */
export function countHooks(): () => { started: number; active: number } {
  const count = { started: 0, active: 0 }
  const { onSettled } = promiseHooks
  promiseHooks.onSettled = hook => {
    const stop = onSettled.call(promiseHooks, hook) as () => void
    count.started++
    count.active++
    return () => {
      count.active--
      stop()
    }
  }
  onTestFinished(() => void (promiseHooks.onSettled = onSettled))
  return () => ({ ...count })
}
