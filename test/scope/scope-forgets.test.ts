import { createHook } from 'node:async_hooks'
import { describe, expect, onTestFinished, test, vi } from 'vitest'
import { BoundaryScope } from '../../plugin/scope.ts'
import { alive } from '../gc.ts'
import { deferred, promptly, turn } from '../promptly.ts'

const SECOND = 1000
const { setTimeout: later } = globalThis

/** How many are still alive a second after. */
async function aliveWithinASecond(refs: WeakRef<object>[]): Promise<number> {
  const end = performance.now() + SECOND
  let left = refs.length
  while (left > 0 && performance.now() < end) {
    await new Promise(resolve => later(resolve, 10))
    left = await alive(refs, 0, 1)
  }
  return left
}

/** The timers that are started from now on. */
function timers(): () => number {
  let count = 0
  const hook = createHook({ init: (_, type) => void (type === 'Timeout' && count++) }).enable()
  onTestFinished(() => void hook.disable())
  return () => count
}

describe('a scope that lives on', () => {
  test('forgets a settled boundary within a second: value, result and promise', async () => {
    const scope = new BoundaryScope<object>()
    const refs: WeakRef<object>[] = []
    const note = <V extends object>(value: V): V => (refs.push(new WeakRef(value)), value)
    await (async () => void (await note(scope.run(note({}), async () => (await turn(), note({}))))))()
    expect(await aliveWithinASecond(refs)).toBe(0)
    expect(refs.length).toBe(3)
  })

  test('forgets a burst, and what settles long after it was opened, while another boundary stays open', async () => {
    const scope = new BoundaryScope<object>()
    const refs: WeakRef<object>[] = []
    const open = deferred()
    const staying = scope.run({}, () => open.promise)
    const burst = async (gate: Promise<unknown>) => {
      const run = () =>
        scope.run({}, async () => {
          await gate
          const result = {}
          refs.push(new WeakRef(result))
          return result
        })
      await Promise.all(Array.from({ length: 200 }, run))
    }
    await burst(turn())
    // By then it looks rarely.
    await burst(new Promise(resolve => later(resolve, 500)))
    expect(await aliveWithinASecond(refs)).toBe(0)
    expect(refs.length).toBe(400)
    open.resolve()
    await staying
  })

  test('does so while a test fakes the timers', async () => {
    const scope = new BoundaryScope<object>()
    vi.useFakeTimers({ toFake: ['setTimeout', 'setInterval', 'performance', 'Date'] })
    onTestFinished(() => void vi.useRealTimers())
    const refs: WeakRef<object>[] = []
    await (async () => {
      const value = {}
      refs.push(new WeakRef(value))
      await scope.run(value, turn)
    })()
    vi.useRealTimers()
    expect(await aliveWithinASecond(refs)).toBe(0)
  })

  test('is itself collected though a boundary of it never settles and nobody has disposed it', async () => {
    const refs: WeakRef<object>[] = []
    ;(() => {
      const scope = new BoundaryScope<object>()
      refs.push(new WeakRef(scope))
      void scope.run({}, () => new Promise(() => {}))
    })()
    expect(await aliveWithinASecond(refs)).toBe(0)
  })

  test('starts no timer while no boundary is open, and few while one stays open', async () => {
    const started = timers()
    const scope = new BoundaryScope<object>()
    scope.run({}, () => 'synchronous')
    expect(started()).toBe(0)
    const gate = deferred()
    const running = scope.run({}, () => gate.promise)
    await new Promise(resolve => later(resolve, 700))
    // 25, 50, 100, 200, 400 and the one of this test.
    expect(started()).toBeLessThanOrEqual(7)
    gate.resolve()
    await running
    await promptly(scope.drain(), 'drain')
    const before = started()
    await new Promise(resolve => later(resolve, 500))
    expect(started() - before).toBe(1)
  })

  test('does not keep the process', () => {
    const kept = () => process.getActiveResourcesInfo().filter(type => type === 'Timeout').length
    const [before, started] = [kept(), timers()]
    void new BoundaryScope().run({}, () => new Promise(() => {}))
    expect([started(), kept()]).toEqual([1, before])
  })
})
