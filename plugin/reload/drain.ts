/** Drain: what is still in flight ends, but nobody waits for it forever. */
import type { Change } from './change.ts'
import { isUnloading } from '../cordis/fibers.ts'
import { countOpen, openIn } from '../audit/ledger.ts'
import type { SlowDrain } from '../report/events.ts'
import type { Running } from './running.ts'
import type { Steps } from './steps.ts'
import { anyOf, within } from '../guard/within.ts'

/** How many of the boundaries that a slow drain waits for are told. */
const SLOW_SHOWN = 20

/** Waits until the old instances are gone, or the deadline or who aborts `abandon` comes first; tells when it is slow. */
export async function drain(change: Change, running: Running, steps: Steps, abandon?: AbortSignal): Promise<void> {
  const { deadline, warnAfter } = running.limits
  const { gone } = change.closing!
  const signal = anyOf(running.halted, abandon)
  change.isDrained = await within(Math.min(warnAfter, deadline), gone, signal)
  if (change.isDrained || signal.aborted) return
  await steps.try(() => running.onSlow(slowDrain(change, running)))
  change.isDrained = await within(deadline - warnAfter, gone, signal)
}

/** What a drain waits for. */
function slowDrain({ going: { targets, dependents } }: Change, { ledger }: Running): SlowDrain {
  const storages = targets.flatMap(target => ledger.entriesOf(target))
  return {
    providers: targets.map(({ name, generation }) => `${name} ${generation}`),
    open: openIn(storages, SLOW_SHOWN).slice(0, SLOW_SHOWN),
    total: countOpen(storages),
    unloading: [...dependents].filter(isUnloading).map(({ name }) => name)
  }
}
