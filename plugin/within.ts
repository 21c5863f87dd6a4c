/** Waiting, but not for ever. */

/** Whether `promise` settles within `ms` milliseconds (`Infinity`: waits for ever), and before `signal` is aborted. */
export async function within(ms: number, promise: Promise<unknown>, signal?: AbortSignal): Promise<boolean> {
  if (ms === Infinity && !signal) return promise.then(() => true)
  let timer: NodeJS.Timeout | undefined
  let stop = () => {}
  const late = new Promise<false>(resolve => {
    stop = () => resolve(false)
    if (ms !== Infinity) timer = setTimeout(stop, Math.max(0, ms))
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
