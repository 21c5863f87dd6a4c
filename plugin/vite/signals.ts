/** Ctrl-C: Vite gives its plugins no hook for SIGINT and SIGHUP, and its CLI sends SIGINT to itself a second time. */
import { now } from '../guard/clock.ts'

/** Vite's own second SIGINT comes within this many milliseconds; a person's comes later. */
const SAME = 250

const EXIT_CODE = { SIGINT: 130, SIGHUP: 129 } as const

/**
 * Runs `stop` on the first signal and exits with the shell's code for it; a second signal exits at once. Returns how to
 * stop listening.
 */
export function onInterrupt(stop: (signal: keyof typeof EXIT_CODE) => Promise<void>): () => void {
  let first: number | undefined
  const listener = (signal: keyof typeof EXIT_CODE) => {
    if (first !== undefined) {
      if (now() - first > SAME) process.exit(EXIT_CODE[signal])
      return
    }
    first = now()
    void stop(signal).finally(() => process.exit(EXIT_CODE[signal]))
  }
  const signals = Object.keys(EXIT_CODE) as (keyof typeof EXIT_CODE)[]
  for (const signal of signals) process.on(signal, listener)
  return () => {
    for (const signal of signals) process.off(signal, listener)
  }
}
