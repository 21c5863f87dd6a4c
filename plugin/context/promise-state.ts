/**
 * Whether a promise has settled, without a reaction on it and without running a line of its owner's.
 *
 * A `then` would mark the promise as handled, so that a rejection nobody awaits would never reach `unhandledRejection`, and
 * would cut the async stack of the caller. `util.inspect` shows the state, but asks the class for its name, the promise for
 * its tag, and then formats the value. So it gets no class to ask (the prototype is taken away for the moment of the look),
 * and is left as soon as it has told pending from settled. Where that cannot be done the promise is `unseen`: it counts as
 * open, and the hook of `v8.promiseHooks`, which comes once and when it settles, is the witness.
 */
import { inspect } from 'node:util'
import { promiseHooks } from 'node:v8'

/** What is seen of a promise. */
export type PromiseState = 'pending' | 'settled' | 'unseen'

const { prototype: PLAIN } = Promise
const ENOUGH = new Error('seen')

let found: PromiseState
let asked: number

function say(state: PromiseState): never {
  found = state
  throw ENOUGH
}

/** `inspect` asks for the depth twice about the promise, and a third time before it reads anything of the value. */
const depth = {
  [Symbol.toPrimitive](): number {
    asked++
    return asked === 1 ? -1 : asked === 2 ? Infinity : say('settled')
  }
}

/** Names and keys never come first and never in this style. What `inspect` says of a stack that is too deep is no state. */
function stylize(text: string, style: string): never {
  if (style !== 'special' || text === '<Revoked Proxy>') return say('settled')
  return say(text === '<pending>' ? 'pending' : 'unseen')
}

/** All of them: `inspect.defaultOptions` is anybody's to change. */
const OPTIONS = {
  showHidden: true,
  depth: depth as unknown as number,
  stylize,
  colors: false,
  customInspect: false,
  showProxy: false,
  getters: false,
  sorted: false,
  compact: 3,
  breakLength: 80,
  maxArrayLength: 0,
  maxStringLength: 0,
  numericSeparator: false
}

function look(promise: Promise<unknown>): PromiseState {
  found = 'unseen'
  asked = 0
  try {
    inspect(promise, OPTIONS)
  } catch {
    // Left when it had said enough, or at the end of the stack, which leaves it unseen.
  }
  return found
}

/** Whether nothing but its owner's code could say how the promise stands. */
export function isHidden(promise: Promise<unknown>): boolean {
  const tag = Object.getOwnPropertyDescriptor(promise, Symbol.toStringTag)
  if (tag && !('value' in tag)) return true
  if (typeof Object.getOwnPropertyDescriptor(promise, 'constructor')?.value === 'function') return true
  return !isPlain(Object.getPrototypeOf(promise)) && !Object.isExtensible(promise)
}

function isPlain(prototype: unknown): boolean {
  return prototype === PLAIN || prototype === null
}

/** How a promise stands, as far as it can be seen. */
export function stateOf(promise: Promise<unknown>): PromiseState {
  if (isHidden(promise)) return 'unseen'
  const prototype: unknown = Object.getPrototypeOf(promise)
  if (isPlain(prototype)) return look(promise)
  Object.setPrototypeOf(promise, null)
  try {
    return look(promise)
  } finally {
    Object.setPrototypeOf(promise, prototype as object)
  }
}

/** Whether a promise is pending, or may be for all that can be seen. */
export function isPending(promise: Promise<unknown>): boolean {
  return stateOf(promise) !== 'settled'
}

/**
 * Nothing here is documented by Node. Where a line of it answers differently, everything built on this stops at its start.
 * @throws when `state` does not tell what is known.
 */
export function assertTells(state: (promise: Promise<unknown>) => PromiseState): void {
  class Class extends Promise<unknown> {}
  let touched = false
  const value = {
    get [Symbol.toStringTag](): string {
      touched = true
      return ''
    }
  }
  const rejected = Promise.reject(value)
  rejected.catch(() => {})
  const pending = [new Promise(() => {}), new Class(() => {}), Object.setPrototypeOf(new Promise(() => {}), null)]
  const settled = [
    rejected,
    Promise.resolve(value),
    Class.resolve(value),
    Promise.resolve(),
    Promise.resolve('<pending>')
  ]
  const right = pending.every(one => state(one) === 'pending') && settled.every(one => state(one) === 'settled')
  if (right && !touched) return
  throw new Error(`boundary scope: node ${process.version} does not show whether a promise is pending`)
}

assertTells(stateOf)

/** Who waits for which promise: the only time when the process pays for a promise hook. */
const waiting = new Map<Promise<unknown>, Set<() => void>>()
let stopHook: (() => void) | undefined

// Taken now: a drain must end too while a test fakes the global.
const { queueMicrotask } = globalThis

/** Calls back when `promise` has settled. @returns stops waiting; to be called afterwards too. */
export function onSettled(promise: Promise<unknown>, callback: () => void): () => void {
  const callbacks = waiting.get(promise) ?? new Set()
  waiting.set(promise, callbacks.add(callback))
  stopHook ??= promiseHooks.onSettled(promise => {
    // The hook comes before the state changes: look again after it.
    if (waiting.has(promise)) queueMicrotask(() => settle(promise))
  }) as () => void
  return () => {
    callbacks.delete(callback)
    if (callbacks.size === 0) waiting.delete(promise)
    if (waiting.size > 0) return
    stopHook?.()
    stopHook = undefined
  }
}

function settle(promise: Promise<unknown>): void {
  const callbacks = waiting.get(promise)
  if (callbacks && stateOf(promise) !== 'pending') for (const callback of callbacks) callback()
}
