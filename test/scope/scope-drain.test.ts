import { AsyncResource } from 'node:async_hooks'
import { describe, expect, onTestFinished, test, vi } from 'vitest'
import { BoundaryScope, SCOPE_SLOT } from '../../plugin/scope.ts'
import { deferred, promptly, turn } from '../promptly.ts'
import { countHooks, held, open, scopeOf } from '../fixtures/scope-fixture.ts'

describe('close()', () => {
  test('refuses new boundaries at once while the open ones go on and still read', async () => {
    const scope = scopeOf()
    const gate = deferred()
    const reading = scope.run('a', async () => (await gate.promise, scope.current()))
    scope.close()
    expect(scope.state).toBe('closed')
    expect(() => scope.run('b', () => expect.unreachable('the operation ran'))).toThrow('test scope is disposed')
    expect(open(scope)).toEqual(['a'])
    gate.resolve()
    expect(await reading).toBe('a')
  })

  test('is idempotent and leaves a scope that is closed or disposed as it is', async () => {
    const scope = scopeOf()
    scope.close()
    scope.close()
    expect(scope.state).toBe('closed')
    await scope.dispose()
    scope.close()
    expect(scope.state).toBe('disposed')
  })
})

describe('drain()', () => {
  test('resolves at once when no boundary is open, and leaves the scope open', async () => {
    const scope = scopeOf()
    expect(await promptly(scope.drain(), 'drain of an idle scope')).toEqual({ drained: 0, released: 0 })
    expect(scope.state).toBe('open')
    expect(scope.run('a', () => scope.current())).toBe('a')
  })

  test('resolves when the last boundary has settled and not before, whether it resolves or rejects', async () => {
    const scope = scopeOf()
    const [one, two] = [held(scope, 'one'), held(scope, 'two')]
    const seq: string[] = []
    const drained = scope.drain().then(result => (seq.push('drained'), result))
    await turn()
    seq.push('one')
    one.resolve()
    await turn()
    seq.push('two')
    const failure = expect(two.done).rejects.toThrow('two failed')
    two.reject(new Error('two failed'))
    expect(await promptly(drained, 'drain of two boundaries')).toEqual({ drained: 2, released: 0 })
    await failure
    expect(seq).toEqual(['one', 'two', 'drained'])
  })

  test('waits for the inner promise of an operation that returned another pending promise', async () => {
    const scope = scopeOf()
    const [outer, inner] = [deferred(), deferred()]
    const seq: string[] = []
    void scope.run('a', async () => (await outer.promise, inner.promise))
    const drained = scope.drain().then(() => seq.push('drained'))
    outer.resolve()
    await turn()
    expect(open(scope)).toEqual(['a'])
    seq.push('inner')
    inner.resolve()
    await promptly(drained, 'drain of a promise that was locked to another')
    expect(seq).toEqual(['inner', 'drained'])
  })

  test('is not held up by a boundary whose operation returns a settled promise while the drain is under way', async () => {
    const scope = scopeOf()
    const first = held(scope, 'first')
    const drained = scope.drain()
    const settled = Promise.resolve(1)
    expect(scope.run('late', () => settled) === settled).toBe(true)
    first.resolve()
    await promptly(drained, 'drain beside a settled promise')
    expect(open(scope)).toEqual([])
  })

  test('waits for boundaries that are opened while it is under way', async () => {
    const scope = scopeOf()
    const seq: string[] = []
    const first = held(scope, 'first')
    const drained = scope.drain().then(() => seq.push('drained'))
    const late = held(scope, 'late')
    first.resolve()
    await turn()
    seq.push('late')
    late.resolve()
    await promptly(drained, 'drain with a late boundary')
    expect(seq).toEqual(['late', 'drained'])
  })

  test('closes both boundaries when they returned the same promise', async () => {
    const [scope, other] = [scopeOf(), scopeOf('other scope')]
    const gate = deferred()
    for (const label of ['one', 'two']) void scope.run(label, () => gate.promise)
    void other.run('three', () => gate.promise)
    expect(open(scope)).toEqual(['one', 'two'])
    const drains = Promise.all([scope.drain(), scope.drain(), other.drain()])
    gate.resolve()
    const drained = await promptly(drains, 'three drains that wait for one promise')
    expect(drained.map(result => result.drained)).toEqual([2, 2, 1])
  })

  test('that another context starts while an operation is still on the stack waits for what it returns', async () => {
    const scope = scopeOf()
    const gate = deferred()
    const seq: string[] = []
    const drain = AsyncResource.bind(() => scope.drain().then(() => seq.push('drained')))
    let drained!: Promise<unknown>
    void scope.run('a', () => {
      drained = drain()
      return gate.promise
    })
    await turn()
    seq.push('settled')
    gate.resolve()
    await promptly(drained, 'drain from another context')
    expect(seq).toEqual(['settled', 'drained'])
  })

  test('pays for one promise hook while thousands of boundaries drain, and for none before and after', async () => {
    const hooks = countHooks()
    const scope = scopeOf()
    const boundaries = Array.from({ length: 5000 }, (_, index) => held(scope, String(index)))
    expect(hooks()).toEqual({ started: 0, active: 0 })
    const drained = scope.drain()
    expect(hooks()).toEqual({ started: 1, active: 1 })
    for (const boundary of boundaries) boundary.resolve()
    expect(await promptly(drained, 'drain of 5000 boundaries')).toEqual({ drained: 5000, released: 0 })
    expect(hooks()).toEqual({ started: 1, active: 0 })
  })

  test('ends while a test fakes timers, microtasks and the clock', async () => {
    const scope = scopeOf()
    const boundary = held(scope, 'a')
    vi.useFakeTimers({ toFake: ['setTimeout', 'setImmediate', 'queueMicrotask', 'performance', 'Date'] })
    onTestFinished(() => void vi.useRealTimers())
    expect(scope.boundaries()[0]!.age).toBeGreaterThanOrEqual(0)
    const drained = scope.drain()
    boundary.resolve()
    await promptly(drained, 'drain under fake timers')
  })
})

describe('dispose()', () => {
  test('closes at once, drains, then disables, in this order', async () => {
    const seq: string[] = []
    const slots = globalThis as Record<symbol, unknown>
    slots[SCOPE_SLOT] = (_: unknown, storage: { disable(): void }) => {
      storage.disable = () => void seq.push('disabled')
    }
    onTestFinished(() => void delete slots[SCOPE_SLOT])
    const scope = scopeOf()
    const boundary = held(scope, 'a')
    const disposed = scope.dispose().then(() => seq.push('disposed'))
    seq.push(scope.state)
    await turn()
    seq.push('settled')
    boundary.resolve()
    await promptly(disposed, 'disposal')
    expect(seq).toEqual(['closed', 'settled', 'disabled', 'disposed'])
    expect(scope.state).toBe('disposed')
  })

  test('is memoised: every call returns the same promise, before, while and after it drains', async () => {
    const scope = scopeOf()
    const boundary = held(scope, 'a')
    const first = scope.dispose()
    expect(scope.dispose() === first).toBe(true)
    boundary.resolve()
    await promptly(first, 'disposal')
    expect(scope.dispose() === first).toBe(true)
  })

  test('leaves reads working until it is done', async () => {
    const scope = scopeOf()
    const gate = deferred()
    const reading = scope.run('a', async () => (await gate.promise, scope.current()))
    const disposed = scope.dispose()
    await turn()
    expect(scope.current()).toBeUndefined()
    expect(open(scope)).toEqual(['a'])
    gate.resolve()
    expect(await reading).toBe('a')
    await promptly(disposed, 'disposal')
  })

  test('makes current(), run() and boundaries() throw and drain() reject, with the name of the scope', async () => {
    const scope = scopeOf('agent initiator scope')
    const message = 'agent initiator scope is disposed'
    const [go, wait] = [deferred(), deferred()]
    const detached = scope.run('a', () => ({ read: (async () => (await go.promise, scope.current()))() }))
    await scope.dispose()
    expect(() => scope.current()).toThrow(message)
    expect(() => scope.run('a', () => wait.promise)).toThrow(message)
    expect(() => scope.boundaries()).toThrow(message)
    await expect(scope.drain()).rejects.toThrow(message)
    go.resolve()
    await expect(detached.read).rejects.toThrow(message)
  })

  test('of a scope without a name says "scope is disposed"', async () => {
    const scope = new BoundaryScope<string>()
    await scope.dispose()
    expect(() => scope.current()).toThrow(/^scope is disposed$/)
  })
})
