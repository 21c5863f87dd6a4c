// Taken before a test can replace them by fake timers.
const { setTimeout, clearTimeout, setImmediate } = globalThis

export interface Deferred<T> {
  promise: Promise<T>
  resolve: (value: T | PromiseLike<T>) => void
  reject: (reason: unknown) => void
}

export function deferred<T = void>(): Deferred<T> {
  const result = {} as Deferred<T>
  result.promise = new Promise((resolve, reject) => Object.assign(result, { resolve, reject }))
  return result
}

/** One macrotask: every microtask that was queued before, and by those, has run. */
export const turn = (): Promise<void> => new Promise(resolve => setImmediate(resolve))

/** The outcome of `promise`, or an error that says `what` did not happen within `ms`. */
export async function promptly<T>(promise: PromiseLike<T>, what: string, ms = 3000): Promise<T> {
  let timer: NodeJS.Timeout | undefined
  const late = new Promise<never>((_, reject) => {
    timer = setTimeout(() => reject(new Error(`not within ${ms} ms: ${what}`)), ms)
  })
  try {
    return await Promise.race([promise, late])
  } finally {
    clearTimeout(timer)
  }
}
