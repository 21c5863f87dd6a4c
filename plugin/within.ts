/** Waiting, but not for ever. */

/** Whether `promise` settles within `ms` milliseconds (`Infinity`: waits for ever). */
export async function within(ms: number, promise: Promise<unknown>): Promise<boolean> {
  if (ms === Infinity) return promise.then(() => true)
  let timer: NodeJS.Timeout | undefined
  const late = new Promise<false>(resolve => {
    timer = setTimeout(resolve, Math.max(0, ms), false)
  })
  try {
    return await Promise.race([promise.then(() => true as const), late])
  } finally {
    clearTimeout(timer)
  }
}
