/** Calls of the user's code that must not reach further than what was called: what it throws is a line of a report. */
import { setImmediate } from './clock.ts'
import { outside } from './outside.ts'
import { within } from './within.ts'

/** Whose turn it is; the tests have one row each. */
export const CALLBACKS = [
  'harness-hmr/before-reload',
  'harness-hmr/after-reload',
  'import.meta.hot.dispose',
  'import.meta.hot.accept',
  'import.meta.hot.prune',
  'AsyncLocalStorage.disable',
  'disposer of an effect',
  'plugin',
  'label of a scope',
  'getter of an export',
  'getter of an error'
] as const

/** A place where the engine calls code that is not ours. */
export type Callback = (typeof CALLBACKS)[number]

/** What a callback threw, with its name before it. */
export function thrownBy(callback: Callback, cause: unknown): Error {
  return new Error(`${callback}: ${messageOf(cause)}`, { cause })
}

/** The result of a call, or `otherwise` when it throws. */
export function attempt<T, F>(call: () => T, otherwise: (error: unknown) => F): T | F {
  try {
    return call()
  } catch (error) {
    return otherwise(error)
  }
}

/** What an object has under a name, or `undefined` when its getter throws. */
export function read(object: unknown, name: PropertyKey): unknown {
  return attempt(
    () => (object as Record<PropertyKey, unknown> | null | undefined)?.[name],
    () => undefined
  )
}

/**
 * Calls a function of the user's, and waits at most `ms` milliseconds for what it returns. Resolves with what it threw or
 * rejected with, or with an error that says that it has not ended; what it does later concerns nobody any more.
 */
export async function contain(
  callback: Callback,
  call: () => unknown,
  { ms = Infinity, signal }: { ms?: number; signal?: AbortSignal } = {}
): Promise<unknown[]> {
  const thrown: unknown[] = []
  const work = async () => {
    try {
      await call()
    } catch (error) {
      thrown.push(thrownBy(callback, error))
    }
  }
  if (!(await within(ms, work(), signal))) return [new Error(`${callback}: it has not ended`)]
  return thrown
}

/**
 * Runs what is ours in the midst of an operation of the user's (a hook, a listener, a `run`), which goes on whatever that
 * throws. The first error is told, later and outside of the operation.
 */
export function aside(tell: (error: unknown) => void): <T>(work: () => T) => T | undefined {
  let told = false
  const later = (error: unknown) => {
    if (told) return
    told = true
    outside(() => setImmediate(tell, error))
  }
  const nothing = () => undefined
  // Where the stack has no room left there may be none to tell it either.
  return work => attempt(work, error => attempt(() => later(error), nothing) as undefined)
}

/** The message of whatever was thrown; it may have been made to throw once more. */
export function messageOf(error: unknown): string {
  const message = read(error, 'message')
  if (typeof message === 'string') return message
  return attempt(
    () => String(error),
    () => 'something that has no text'
  )
}
