/** Drain: what is still in flight ends, but nobody waits for it forever. */
import type { Change } from './change.ts'
import type { Running } from './running.ts'
import type { Steps } from './steps.ts'
import { withAny } from '../guard/within.ts'
import { waitFor } from './waits.ts'

/** Waits until the old instances are gone, or the deadline or who aborts `abandon` comes first; tells when it is slow. */
export async function drain(change: Change, running: Running, steps: Steps, abandon?: AbortSignal): Promise<void> {
  const { gone } = change.closing!
  const waiting = { step: 'drain', limit: running.limits.deadline } as const
  change.isDrained = await withAny([running.halted, abandon], signal =>
    waitFor(gone, waiting, signal, change, running, steps)
  )
}
