/**
 * Whether promises have settled, without a reaction on them and without running a line of their owner's.
 *
 * A `then` would mark a promise as handled, so that a rejection nobody awaits would never reach `unhandledRejection`, and
 * would cut the async stack of the caller. `util.inspect` shows the state, but asks the class for its name, the promise for
 * its tag, and then formats the value. So it gets no class to ask (the prototype is taken away for the moment of the look),
 * and whatever a promise holds is to it something that it has seen already, which it does not read. One call looks at many:
 * that costs a third of a call for each. Where it cannot be done the promise is `unseen`: it counts as open, and the hook
 * of `v8.promiseHooks`, which comes once and when it settles, is the witness.
 */
import { inspect } from 'node:util'
import { promiseHooks } from 'node:v8'
import { STORES_ON_RESOURCE } from './enter.ts'

/** What is seen of a promise. */
export type PromiseState = 'pending' | 'settled' | 'unseen'

const { prototype: PLAIN } = Promise
const { toStringTag } = Symbol

/** Comes first in every look: what `inspect` says of it gives us hold of what it has seen. */
const FIRST = new Promise<never>(() => {})
/** In the place of a promise that is not looked at. */
const NOTHING = Object.freeze({})
const BEFORE = -2

/** The look that is under way: what it has found, at which promise it is, and whether it has said how that one stands. */
let found: PromiseState[] | undefined
let index = 0
let told = true

/**
 * Where each storage leaves a property on each promise, `inspect` would go on to show them all. It goes on with the next
 * promise at once where it believes that the stack has no room left.
 */
const LEAVE = STORES_ON_RESOURCE ? new RangeError('Maximum call stack size exceeded') : undefined

function tell(state: PromiseState): void {
  if (told) return
  told = true
  found![index] = state
  if (LEAVE) throw LEAVE
}

/** `inspect` asks before it reads anything of an object: of the list, then of each promise, then of what that holds. */
function includes(this: unknown[]): boolean {
  if (this.length > 1) {
    tell('settled')
    return true
  }
  if (this.length === 1) {
    index++
    told = false
  }
  return false
}

/** The state comes before names and keys. What `inspect` says of a stack that is too deep is no state. */
function stylize(this: { seen: unknown[] } | undefined, text: string, style: string): string {
  if (index === BEFORE) {
    if (this?.seen.length !== 2) throw new Error('node:util does not show what it has seen')
    this.seen.includes = includes
    index = -1
  } else if (style !== 'special' || text === '<Revoked Proxy>') tell('settled')
  else tell(text === '<pending>' ? 'pending' : 'unseen')
  return ''
}

/** All of them: `inspect.defaultOptions` is anybody's to change. */
const OPTIONS = {
  showHidden: false,
  depth: Infinity,
  stylize,
  colors: false,
  customInspect: false,
  showProxy: false,
  getters: false,
  sorted: false,
  compact: 0,
  breakLength: 0,
  maxArrayLength: Infinity,
  maxStringLength: 0,
  numericSeparator: false
}

/** Whether nothing but its owner's code could say how the promise stands. */
export function isHidden(promise: Promise<unknown>): boolean {
  if (Object.hasOwn(promise, toStringTag)) {
    if (!('value' in Object.getOwnPropertyDescriptor(promise, toStringTag)!)) return true
  }
  if (Object.hasOwn(promise, 'constructor')) {
    if (typeof Object.getOwnPropertyDescriptor(promise, 'constructor')!.value === 'function') return true
  }
  return !isPlain(Object.getPrototypeOf(promise)) && !Object.isExtensible(promise)
}

function isPlain(prototype: unknown): boolean {
  return prototype === PLAIN || prototype === null
}

/** How each of these promises stands, as far as it can be seen. */
export function statesOf(promises: readonly Promise<unknown>[]): PromiseState[] {
  const states = promises.map((): PromiseState => 'unseen')
  // It could only be asked for by a line of somebody's that should not run.
  if (found) return states
  const list: object[] = [FIRST]
  const taken: [Promise<unknown>, object][] = []
  try {
    for (const promise of promises) {
      const hidden = isHidden(promise)
      list.push(hidden ? NOTHING : promise)
      const prototype: unknown = Object.getPrototypeOf(promise)
      if (hidden || isPlain(prototype)) continue
      Object.setPrototypeOf(promise, null)
      taken.push([promise, prototype as object])
    }
    found = states
    index = BEFORE
    told = true
    inspect(list, OPTIONS)
  } catch {
    // At the end of the stack: the rest is unseen.
  } finally {
    found = undefined
    for (const [promise, prototype] of taken) Object.setPrototypeOf(promise, prototype)
  }
  return states
}

/** How a promise stands, as far as it can be seen. */
export function stateOf(promise: Promise<unknown>): PromiseState {
  return statesOf([promise])[0]!
}

/** Whether a promise is pending, or may be for all that can be seen. */
export function isPending(promise: Promise<unknown>): boolean {
  return stateOf(promise) !== 'settled'
}

/**
 * Nothing here is documented by Node. Where a line of it answers differently, everything built on this stops at its start.
 * @throws when `states` does not tell what is known.
 */
export function assertTells(states: typeof statesOf): void {
  class Class extends Promise<unknown> {}
  let touched = false
  const value = {
    get [toStringTag](): string {
      touched = true
      return ''
    }
  }
  const bare: Promise<unknown> = Object.setPrototypeOf(new Promise(() => {}), null)
  const pending = [new Promise(() => {}), new Class(() => {}), bare, Object.assign(new Promise(() => {}), { value })]
  const settled = [Promise.resolve(value), Class.resolve(value), Promise.resolve(), Promise.resolve('<pending>')]
  for (const reason of [value, pending[0]]) {
    const rejected = Promise.reject(reason)
    rejected.catch(() => {})
    settled.push(rejected)
  }
  // One after the other in turn, so that none is told by what is true of its neighbour.
  const all = settled.flatMap((one, index) => [one, pending[index % pending.length]!])
  const told = states(all)
  const right = told.every((state, index) => state === (index % 2 === 0 ? 'settled' : 'pending'))
  if (right && told.length === all.length && !touched) return
  throw new Error(`boundary scope: node ${process.version} does not show whether a promise is pending`)
}

assertTells(statesOf)

/** Who waits for which promise: the only time when the process pays for a promise hook. */
const waiting = new Map<Promise<unknown>, Set<() => void>>()
let stopHook: (() => void) | undefined

// Taken now: a drain must end too while a test fakes the global.
const { queueMicrotask } = globalThis

/** Those that the hook has told of, and nobody has looked at since. */
let settling: Promise<unknown>[] = []

/** Calls back when `promise` has settled. @returns stops waiting; to be called afterwards too. */
export function onSettled(promise: Promise<unknown>, callback: () => void): () => void {
  const callbacks = waiting.get(promise) ?? new Set()
  waiting.set(promise, callbacks.add(callback))
  stopHook ??= promiseHooks.onSettled(promise => {
    if (!waiting.has(promise)) return
    // The hook comes before the state changes: look after it.
    if (settling.push(promise) === 1) queueMicrotask(settle)
  }) as () => void
  return () => {
    callbacks.delete(callback)
    if (callbacks.size === 0) waiting.delete(promise)
    if (waiting.size > 0) return
    stopHook?.()
    stopHook = undefined
  }
}

function settle(): void {
  const promises = settling
  settling = []
  const states = statesOf(promises)
  for (const [index, promise] of promises.entries())
    if (states[index] !== 'pending') for (const callback of waiting.get(promise) ?? []) callback()
}
