import { inspect } from 'node:util'
import { runInNewContext } from 'node:vm'
import * as fc from 'fast-check'
import { describe, expect, onTestFinished, test, vi } from 'vitest'
import { assertTells, isPending, type PromiseState, stateOf, statesOf } from '../../plugin/context/promise-state.ts'
import { deferred, promptly, turn } from '../promptly.ts'
import { countHooks, scopeOf } from '../fixtures/scope-fixture.ts'

const ran: string[] = []
const trap = (what: string) => (): never => {
  ran.push(what)
  throw new Error(`${what} ran`)
}
const traps = ['get', 'has', 'getPrototypeOf', 'setPrototypeOf', 'getOwnPropertyDescriptor', 'ownKeys'] as const
const proxy = () => new Proxy({}, Object.fromEntries(traps.map(name => [name, trap(`proxy.${name}`)])))
const getter = (key: PropertyKey) => (promise: object) =>
  void Object.defineProperty(promise, key, { get: trap(String(key)) })
const { toStringTag, iterator } = Symbol

class Plain extends Promise<unknown> {}
class Named extends Promise<unknown> {
  static override get name(): string {
    return trap('name')()
  }
}
class Forged extends Promise<unknown> {}
void Object.defineProperty(Forged, 'name', { value: '<pending>' })
class Tagged extends Promise<unknown> {
  override get [Symbol.toStringTag](): string {
    return trap('tag')()
  }
}
class Hostile extends Promise<unknown> {
  static override get [Symbol.species](): never {
    return trap('species')()
  }
  static override [Symbol.hasInstance](): boolean {
    return trap('hasInstance')()
  }
  get [iterator](): never {
    return trap('iterator')()
  }
}
void Object.defineProperty(Hostile.prototype, 'then', { get: trap('then') })

type Make = new (
  executor: (resolve: (value: unknown) => void, reject: (reason: unknown) => void) => void
) => Promise<unknown>
const foreign = runInNewContext('Promise') as Make
const classes = { Promise, Plain, Named, Forged, Tagged, Hostile, foreign } as unknown as Record<string, Make>

/** Without it the process would end with a rejection that nobody handles, and Node would read the promise for that. */
function handle(promise: Promise<unknown>): void {
  const prototype: unknown = Object.getPrototypeOf(promise)
  Object.setPrototypeOf(promise, Promise.prototype)
  promise.catch(() => {})
  Object.setPrototypeOf(promise, prototype as object)
}

/** What may be done to a promise; false where nothing but its owner's code tells how it stands. */
const deeds: Record<string, [(promise: object) => void, seen?: false]> = {
  nothing: [() => {}],
  'no prototype': [promise => void Object.setPrototypeOf(promise, null)],
  'a proxy as prototype': [promise => void Object.setPrototypeOf(promise, proxy())],
  'a proxy far up': [promise => void Object.setPrototypeOf(promise, Object.create(proxy()) as object)],
  'own then': [getter('then')],
  'own constructor getter': [getter('constructor')],
  'own iterator': [getter(iterator)],
  'own inspect': [getter(Symbol.for('nodejs.util.inspect.custom'))],
  'own tag': [promise => void Object.defineProperty(promise, toStringTag, { value: '<pending>' })],
  'odd properties': [promise => void Object.assign(promise, { 1: '<pending>', '<pending>': proxy() })],
  'own tag getter': [getter(toStringTag), false],
  'own class': [promise => void Object.defineProperty(promise, 'constructor', { value: Named }), false]
}

/** What a promise may hold: what `fast-check` itself must not look into is made when it is needed. */
const values: Record<string, () => unknown> = {
  nothing: () => undefined,
  'a text': () => '<pending>',
  'a symbol': () => Symbol('<pending>'),
  'a function': () => () => {},
  'a long text': () => 'x'.repeat(100_000),
  'an invalid date': () => new Date(NaN),
  'a tag getter': () => Object.defineProperty({}, toStringTag, { get: trap('tag of the value') }),
  'a class': () => Object.create({ constructor: Named, then: 0 }) as unknown,
  'a proxy': () =>
    new Proxy({ then: 0 }, { ownKeys: trap('ownKeys'), has: trap('has'), getPrototypeOf: trap('proto') }),
  'a revoked proxy': () => {
    const { proxy, revoke } = Proxy.revocable({}, {})
    revoke()
    return proxy
  }
}

const promises = fc.record({
  of: fc.constantFrom(...Object.keys(classes)),
  deed: fc.constantFrom(...Object.keys(deeds)),
  frozen: fc.boolean(),
  state: fc.constantFrom('pending', 'locked', 'fulfilled', 'rejected'),
  holds: fc.constantFrom(...Object.keys(values))
})

/** How a promise that was made so stands, as far as it can be seen. */
function make({
  of,
  deed,
  frozen,
  state,
  holds
}: {
  of: string
  deed: string
  frozen: boolean
  state: string
  holds: string
}) {
  const promise = new classes[of]!((resolve, reject) => {
    if (state === 'fulfilled') resolve(values[holds]!())
    if (state === 'locked') resolve(new Promise(() => {}))
    if (state === 'rejected') reject(values[holds]!())
  })
  handle(promise)
  const [change, isSeen = true] = deeds[deed]!
  change(promise)
  if (frozen) Object.freeze(promise)
  const prototype: unknown = Object.getPrototypeOf(promise)
  const ordinary = prototype === Promise.prototype || prototype === null
  const stands: PromiseState = state === 'pending' || state === 'locked' ? 'pending' : 'settled'
  const expected: PromiseState = isSeen && (ordinary || !frozen) ? stands : 'unseen'
  return { promise, prototype, expected }
}

test(
  'the state of any promises is told right or is unseen, and no code of their owner runs',
  { timeout: 60_000 },
  () => {
    const { defaultOptions } = inspect
    const before = { ...defaultOptions }
    vi.useFakeTimers({ toFake: ['setTimeout', 'setImmediate', 'queueMicrotask', 'performance', 'Date'] })
    onTestFinished(() => {
      vi.useRealTimers()
      inspect.defaultOptions = before
    })
    let seen = 0
    const { RANDOM_RUNS, RANDOM_SEED } = process.env
    fc.assert(
      fc.property(fc.array(promises, { minLength: 1, maxLength: 6 }), fc.boolean(), (of, odd) => {
        inspect.defaultOptions = odd
          ? {
              showHidden: false,
              depth: null,
              showProxy: true,
              getters: true,
              sorted: true,
              colors: true,
              compact: true
            }
          : before
        const made = of.map(make)
        // Two boundaries may have returned the same one.
        const all = [...made, made[0]!]
        ran.length = 0
        const told = statesOf(all.map(({ promise }) => promise))
        expect(ran).toEqual([])
        expect(told).toEqual(all.map(({ expected }) => expected))
        for (const { promise, prototype, expected } of made) {
          expect(Object.getPrototypeOf(promise) === prototype).toBe(true)
          expect(stateOf(promise)).toBe(expected)
          expect(isPending(promise)).toBe(expected !== 'settled')
          if (expected !== 'unseen') seen++
        }
      }),
      { numRuns: Number(RANDOM_RUNS) || 1000, seed: Number(RANDOM_SEED) || 1 }
    )
    expect(seen).toBeGreaterThan(500)
  }
)

describe('a promise whose state is hidden', () => {
  const hidden: Record<string, (promise: Promise<unknown>) => unknown> = {
    'by a getter of its own for the tag': getter(toStringTag),
    'by a class of its own': promise => Object.defineProperty(promise, 'constructor', { value: Named }),
    'since it is of another class and cannot be changed': promise => Object.preventExtensions(promise)
  }

  test.each(Object.keys(hidden))(
    '%s counts as open until it has settled, and costs a hook only until then',
    async how => {
      const hooks = countHooks()
      const scope = scopeOf()
      const inner = deferred()
      let resolve!: (value: unknown) => void
      const promise = new Named(done => (resolve = done))
      // Locked to another one, it is resolved and has not settled.
      resolve(inner.promise)
      await turn()
      hidden[how]!(promise)
      ran.length = 0
      void scope.run('a', () => promise)
      expect(hooks().active).toBe(1)
      const seq: string[] = []
      const disposed = scope.dispose().then(() => seq.push('disposed'))
      await turn()
      seq.push('settles')
      inner.resolve()
      await promptly(disposed, 'disposal')
      expect(seq).toEqual(['settles', 'disposed'])
      expect([ran, hooks().active]).toEqual([[], 0])
    }
  )

  test('is found settled without a drain', async () => {
    const scope = scopeOf()
    const gate = deferred()
    void scope.run('a', () => (getter(toStringTag)(gate.promise), gate.promise))
    expect(scope.size).toBe(1)
    gate.resolve()
    await turn()
    expect(scope.size).toBe(0)
  })
})

test('at the end of the stack a pending promise is not taken for a settled one, and keeps its class', async () => {
  const scope = scopeOf()
  const gate = deferred()
  const promise = new Named(resolve => resolve(gate.promise))
  let looks = 0
  const deep = (): void => {
    try {
      deep()
    } catch {}
    try {
      for (let i = 0; i < 3; i++) void scope.run('x', () => promise)
      if (stateOf(promise) === 'settled') looks++
    } catch {}
  }
  deep()
  expect(Object.getPrototypeOf(promise) === Named.prototype).toBe(true)
  expect(looks).toBe(0)
  const seq: string[] = []
  const disposed = scope.dispose().then(() => seq.push('disposed'))
  await turn()
  seq.push('settles')
  gate.resolve()
  await promptly(disposed, 'disposal', 10_000)
  expect(seq).toEqual(['settles', 'disposed'])
})

test('a Node that does not show what is relied on is refused when the scope is loaded', () => {
  const answers: PromiseState[] = ['pending', 'settled', 'unseen']
  for (const answer of answers) {
    expect(() => assertTells(promises => promises.map(() => answer))).toThrow(
      /node v\S+ does not show whether a promise is pending/
    )
  }
  const formats = (promise: Promise<unknown>): PromiseState =>
    inspect(promise).includes('<pending>') ? 'pending' : 'settled'
  expect(() => assertTells(promises => promises.map(formats))).toThrow('does not show')
  expect(() => assertTells(() => [])).toThrow('does not show')
})
