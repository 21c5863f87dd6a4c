import { AsyncLocalStorage, AsyncResource, executionAsyncResource } from 'node:async_hooks'
import { inspect } from 'node:util'
import { runInNewContext } from 'node:vm'
import { describe, expect, onTestFinished, test } from 'vitest'
import { BoundaryScope, SCOPE_SLOT } from '../../plugin/scope.ts'
import { deferred, promptly, turn } from '../promptly.ts'
import { held, open, scopeOf } from '../fixtures/scope-fixture.ts'

type Executor = (resolve: (value: unknown) => void, reject: (reason: unknown) => void) => void

describe('current()', () => {
  test('is undefined outside of any boundary', () => {
    expect(scopeOf().current()).toBeUndefined()
  })

  test('is the very value of the boundary, also after awaits and in timers', async () => {
    const scope = new BoundaryScope<object>()
    const value = {}
    const seen = await scope.run(value, async () => {
      const before = scope.current()
      await turn()
      const after = scope.current()
      const timer = await new Promise(resolve => setTimeout(() => resolve(scope.current()), 0))
      return [before, after, timer].map(seen => seen === value)
    })
    expect(seen).toEqual([true, true, true])
    expect(scope.current()).toBeUndefined()
  })

  test('is undefined in a boundary that was opened with undefined, and the outer value after it', async () => {
    const scope = scopeOf()
    const seen = await scope.run('outer', async () => {
      const hidden = await scope.run(undefined, async () => (await turn(), scope.current()))
      const shown = scope.run(undefined, () => scope.run('inner', () => scope.current()))
      return [hidden, shown, scope.current()]
    })
    expect(seen).toEqual([undefined, 'inner', 'outer'])
  })

  test('carries falsy values that are not undefined', () => {
    const scope = new BoundaryScope<string | number | boolean>()
    expect(['', 0, false].map(value => scope.run(value, () => scope.current()))).toEqual(['', 0, false])
  })

  test('keeps the values of two scopes apart', () => {
    const [one, two] = [scopeOf('one'), scopeOf('two')]
    expect(one.run('1', () => two.run('2', () => one.current()! + two.current()!))).toBe('12')
  })
})

describe('run()', () => {
  test('returns the exact synchronous value and closes the boundary at once', () => {
    const scope = scopeOf()
    const value = { then: 'not a function' }
    expect(scope.run('a', () => value)).toBe(value)
    expect(scope.run('a', () => undefined)).toBeUndefined()
    expect(open(scope)).toEqual([])
  })

  test('hands a thenable that is not a Promise back untouched and does not track it', () => {
    const scope = scopeOf()
    const thenable = { then: () => expect.unreachable('then was called') }
    expect(scope.run('a', () => thenable)).toBe(thenable)
    expect(open(scope)).toEqual([])
  })

  test('throws what the operation throws, the boundary is closed and the outer value is back', () => {
    const scope = scopeOf()
    const error = new Error('synchronous')
    scope.run('outer', () => {
      expect(() =>
        scope.run('inner', () => {
          throw error
        })
      ).toThrow(error)
      expect(scope.current()).toBe('outer')
      expect(open(scope)).toEqual(['outer'])
    })
  })

  test('rejects with what the operation rejects with, the boundary is closed and the outer value is back', async () => {
    const scope = scopeOf()
    const error = new Error('asynchronous')
    await scope.run('outer', async () => {
      const failing = scope.run('inner', async () => {
        await turn()
        throw error
      })
      expect(scope.current()).toBe('outer')
      expect(open(scope)).toEqual(['outer', 'inner'])
      await expect(failing).rejects.toBe(error)
      expect(scope.current()).toBe('outer')
      expect(open(scope)).toEqual(['outer'])
    })
  })

  test('isolates boundaries that overlap, nest and clear', async () => {
    const scope = scopeOf()
    const gates = [deferred(), deferred(), deferred()] as const
    const read = (value: string | undefined, gate: Promise<void>) =>
      scope.run(value, async () => (await gate, scope.current()))
    const results = [
      read('a', gates[0].promise),
      scope.run('b', () => read('c', gates[1].promise)),
      read(undefined, gates[2].promise)
    ]
    expect(open(scope)).toEqual(['a', 'b', 'c', 'cleared'])
    for (const gate of gates.toReversed()) gate.resolve()
    expect(await Promise.all(results)).toEqual(['a', 'c', undefined])
    expect(open(scope)).toEqual([])
  })

  test('does not track work that the operation did not return', async () => {
    const scope = scopeOf()
    const gate = deferred()
    let detached!: Promise<string | undefined>
    scope.run('a', () => {
      detached = (async () => (await gate.promise, scope.current()))()
    })
    expect(open(scope)).toEqual([])
    expect(await promptly(scope.drain(), 'a drain beside detached work')).toEqual({ drained: 0, released: 0 })
    gate.resolve()
    expect(await detached).toBe('a')
  })

  test('enters through an AsyncResource only where the store would stay in the caller', () => {
    const legacy = '_enable' in AsyncLocalStorage.prototype
    const outside = executionAsyncResource()
    const inside = scopeOf().run('a', () => executionAsyncResource())
    if (legacy) expect(inside).toBe(outside)
    else expect(inside).toBeInstanceOf(AsyncResource)
  })
})

describe("a returned Promise keeps its identity and is waited for without running its owner's code", () => {
  const touched: string[] = []
  const touch = (what: string) => () => {
    touched.push(what)
    throw new Error(`${what} was used`)
  }
  const own = (executor: Executor, key: PropertyKey, descriptor: PropertyDescriptor) =>
    Object.defineProperty(new Promise(executor), key, descriptor)
  class Plain extends Promise<unknown> {}
  class Species extends Promise<unknown> {
    static override get [Symbol.species](): never {
      return touch('species')()
    }
  }
  class Then extends Promise<unknown> {
    static {
      void Object.defineProperty(this.prototype, 'then', { get: touch('then') })
    }
  }
  class Braces extends Promise<unknown> {
    override get [Symbol.toStringTag](): string {
      return 'braces { <pending>'
    }
  }

  const shapes: Record<string, (executor: Executor) => Promise<unknown>> = {
    native: executor => new Promise(executor),
    'of a subclass': executor => new Plain(executor),
    'of another realm': executor => runInNewContext('executor => new Promise(executor)')(executor),
    'with an own then': executor => own(executor, 'then', { value: touch('then'), enumerable: true }),
    'with an own then getter': executor => own(executor, 'then', { get: touch('then'), enumerable: true }),
    'with an inherited then getter': executor => new Then(executor),
    'with a throwing constructor': executor => own(executor, 'constructor', { get: touch('constructor') }),
    'with a throwing Symbol.species': executor => new Species(executor),
    'without a prototype': executor => Object.setPrototypeOf(new Promise(executor), null),
    'that is frozen': executor => Object.freeze(new Promise(executor)),
    'named like the text of a promise': executor => new Braces(executor),
    'with a property that cannot be shown': executor =>
      own(executor, 'x', {
        value: {
          get [Symbol.toStringTag]() {
            throw new Error('unshowable')
          }
        },
        enumerable: true
      }),
    'with properties that sort before its state': executor => Object.assign(new Promise(executor), { 1: 1 })
  }

  test.each(Object.keys(shapes))('%s', async shape => {
    touched.length = 0
    inspect.defaultOptions.sorted = true
    onTestFinished(() => void (inspect.defaultOptions.sorted = false))
    const scope = scopeOf()
    const box = {} as { promise: Promise<unknown>; settle: () => void }
    box.promise = shapes[shape]!(resolve => {
      box.settle = () => resolve('<pending>')
    })
    const box2 = { promise: scope.run('a', () => box.promise) }
    expect(box2.promise === box.promise).toBe(true)
    expect(open(scope)).toEqual(['a'])

    const seq: string[] = []
    const drained = scope.drain().then(() => seq.push('drained'))
    await turn()
    seq.push('settled')
    box.settle()
    await promptly(drained, `drain of a Promise ${shape}`)
    expect(seq).toEqual(['settled', 'drained'])
    expect(open(scope)).toEqual([])

    const again = { promise: scope.run('a', () => box.promise) }
    expect(again.promise === box.promise).toBe(true)
    expect(open(scope)).toEqual([])
    expect(touched).toEqual([])
  })

  test.each(['native', 'of a subclass', 'of another realm'])('%s, rejected', async shape => {
    const scope = scopeOf()
    let reject!: (reason: unknown) => void
    const promise = shapes[shape]!((_, no) => {
      reject = no
    })
    expect(scope.run('a', () => promise) === promise).toBe(true)
    const caught = promise.catch((error: unknown) => error)
    const drained = scope.drain()
    reject('the reason')
    expect(await promptly(drained, `drain of a rejected Promise ${shape}`)).toEqual({ drained: 1, released: 0 })
    expect(await caught).toBe('the reason')
  })
})

describe('boundaries()', () => {
  /** Somebody who asks where a boundary was opened. */
  function listen(): void {
    const slots = globalThis as Record<symbol, unknown>
    slots[SCOPE_SLOT] = () => {}
    onTestFinished(() => void delete slots[SCOPE_SLOT])
  }

  test('lists what is open, oldest first: label, age in milliseconds and where it was opened', async () => {
    listen()
    const scope = scopeOf()
    const before = performance.now()
    const [here, first] = [new Error('here'), held(scope, 'first')]
    await turn()
    const second = held(scope, 'second')
    void scope.run(undefined, () => first.promise)
    const listed = scope.boundaries()
    const elapsed = performance.now() - before
    expect(listed.map(boundary => boundary.label)).toEqual(['first', 'second', 'cleared'])
    expect(listed[0]!.age).toBeGreaterThan(listed[1]!.age)
    for (const { age } of listed) expect(age).toSatisfy((age: number) => age >= 0 && age <= elapsed)
    const line = /scope\.test\.ts:\d+/.exec(here.stack!)![0]
    expect(listed[0]!.opened.slice(0, 2).join('\n')).toContain('held')
    expect(listed[0]!.opened.join('\n')).toContain(line)
    first.resolve()
    await turn()
    expect(open(scope)).toEqual(['second'])
    second.resolve()
  })

  test('lists a boundary without frames of a scope that was created where nobody listens, and takes no stack for it', () => {
    const scope = scopeOf()
    const { captureStackTrace } = Error
    onTestFinished(() => void (Error.captureStackTrace = captureStackTrace))
    Error.captureStackTrace = () => expect.unreachable('a stack was taken')
    const gate = deferred()
    expect(scope.run('a', () => gate.promise) === gate.promise).toBe(true)
    expect(scope.boundaries()).toMatchObject([{ label: 'a', opened: [] }])
    gate.resolve()
  })

  test('lists a boundary without frames when Error.prepareStackTrace makes something else of a stack', () => {
    listen()
    const scope = scopeOf()
    void scope.run('a', () => new Promise(() => {}))
    const { prepareStackTrace } = Error
    onTestFinished(() => void (Error.prepareStackTrace = prepareStackTrace))
    Error.prepareStackTrace = (_, frames) => frames
    expect(scope.boundaries()).toMatchObject([{ label: 'a', opened: [] }])
  })

  test('names a boundary after its scope when there is no label option', () => {
    const scope = new BoundaryScope<string>({ name: 'plain' })
    void scope.run('a', () => new Promise(() => {}))
    expect(scope.boundaries().map(boundary => boundary.label)).toEqual(['plain'])
  })
})

describe('a label that is not ours', () => {
  const labels = (label: (value: string) => string) => {
    const scope = new BoundaryScope<string>({ name: 'test scope', label })
    void scope.run('a', () => new Promise(() => {}))
    return scope.boundaries().map(boundary => boundary.label)
  }

  test('that throws, or is no text, leaves the boundary listed under the name of its scope', () => {
    const failing = () => {
      throw new Error('no label')
    }
    expect(labels(failing)).toEqual(['test scope (its label failed)'])
    expect(labels(() => 1 as unknown as string)).toEqual(['test scope (its label failed)'])
  })

  test('reaches reports on one line and without control characters', () => {
    expect(labels(() => 'a\u001b[2Jb\r\nc\u2028d\u009be')).toEqual(['ab c d e'])
  })
})

describe('announcement', () => {
  const slots = globalThis as Record<symbol, unknown>

  test('a new scope calls the listener in the process-wide slot with itself and the storage that it enters', () => {
    const calls: [unknown, AsyncLocalStorage<unknown>][] = []
    slots[SCOPE_SLOT] = (...args: [unknown, AsyncLocalStorage<unknown>]) => void calls.push(args)
    onTestFinished(() => void delete slots[SCOPE_SLOT])
    const scope = scopeOf()
    expect(SCOPE_SLOT).toBe(Symbol.for('harness-hmr.scope'))
    expect(calls.length).toBe(1)
    const [announced, storage] = calls[0]!
    expect(announced === scope).toBe(true)
    expect(storage.getStore()).toBeUndefined()
    expect(scope.run('a', () => storage.getStore())).toBeDefined()
  })

  test('a scope that is created without a listener works, and the slot stays empty', () => {
    expect(scopeOf().run('a', () => 1)).toBe(1)
    expect(SCOPE_SLOT in globalThis).toBe(false)
  })
})
