/** Waiting, but not forever. */
import { clearTimeout, setTimeout } from './clock.ts'

/** The longest time that a timer of Node's takes, in milliseconds; it fires at once for more. */
const LONGEST = 2 ** 31 - 1

/** Whether `promise` settles within `ms` milliseconds (`Infinity`: waits forever), and before `signal` is aborted. */
export async function within(ms: number, promise: Promise<unknown>, signal?: AbortSignal): Promise<boolean> {
  if (ms === Infinity && !signal) return promise.then(() => true)
  let timer: NodeJS.Timeout | undefined
  let stop = () => {}
  const late = new Promise<false>(resolve => {
    stop = () => resolve(false)
    if (ms <= LONGEST) timer = setTimeout(stop, Math.max(0, ms))
    if (signal?.aborted) stop()
    else signal?.addEventListener('abort', stop)
  })
  try {
    return await Promise.race([promise.then(() => true as const), late])
  } finally {
    clearTimeout(timer)
    signal?.removeEventListener('abort', stop)
  }
}

/**
 * Does some work with a signal that is aborted when one of `signals` is. `AbortSignal.any` would leave 60 to 180 bytes on one
 * that lives on, on Node 20 to 24: nothing of this stays.
 */
export async function withAny<T>(
  signals: (AbortSignal | undefined)[],
  work: (signal: AbortSignal) => Promise<T>
): Promise<T> {
  const any = new AbortController()
  const stops = signals.map(signal => {
    const abort = () => any.abort(signal!.reason)
    if (signal?.aborted) abort()
    else signal?.addEventListener('abort', abort)
    return () => signal?.removeEventListener('abort', abort)
  })
  try {
    return await work(any.signal)
  } finally {
    for (const stop of stops) stop()
  }
}
