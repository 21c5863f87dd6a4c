/** What the step that runs waits for, as the page shows it: without what changes by the mere passing of time. */
import { printable } from '../../guard/printable.ts'
import type { Waits } from '../../report/events.ts'
import type { Running } from '../../reload/running.ts'
import { placesOf } from './overview.ts'
import type { ShownWaits } from './protocol.ts'

/** The same, with places in the harness' own files, and times as `Date.now()` counts. */
export function shownWaits(waits: Waits, running: Running): ShownWaits {
  const { step, parking, parkingTotal, open, total, unloading } = waits
  const shown = open.map(({ label, provider, since, opened }) => ({
    label,
    provider,
    since: Math.round(performance.timeOrigin + since),
    opened: placesOf(opened.join('\n'), running)
  }))
  return printable({ step, parking, parkingTotal, open: shown, total, unloading })
}
