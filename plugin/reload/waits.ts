/** What a reload waits for: drivers that have not parked, open boundaries, and disposers that have not ended. */
import { countOpen, openIn, type LedgerEntry } from '../audit/ledger.ts'
import type { Fiber } from '../cordis/cordis.ts'
import { isUnloading, isWithin } from '../cordis/fibers.ts'
import { now } from '../guard/clock.ts'
import { within } from '../guard/within.ts'
import type { AwaitedBoundary, Parking, Unloading, Waits } from '../report/events.ts'
import type { Change } from './change.ts'
import type { Going } from './targets.ts'
import type { Pending } from './parking.ts'
import type { Running } from './running.ts'
import type { Steps } from './steps.ts'

/** How many of a kind are told; the others are counted. */
const SHOWN = 20

/** The step that waits: since when (as `performance.now()` counts), for how long at most, and for which listeners. */
interface Waiting {
  step: Waits['step']
  since: number
  limit: number
  pending?: ReadonlySet<Pending>
}

/**
 * Waits until `ended` settles, the step's time is over, or `signal` is aborted; whether it has settled. After `warnAfter`
 * what is waited for is told, and while it waits everybody may ask.
 */
export async function waitFor(
  ended: Promise<unknown>,
  waiting: Omit<Waiting, 'since'>,
  signal: AbortSignal,
  change: Change,
  running: Running,
  steps: Steps
): Promise<boolean> {
  const since = now()
  const waits = () => waitsOf(change, running, { ...waiting, since })
  steps.waits(waits)
  const soon = Math.min(running.limits.warnAfter, waiting.limit)
  if (await within(soon, ended, signal)) return true
  if (signal.aborted) return false
  await steps.try(() => running.onSlow(waits()))
  return within(waiting.limit - soon, ended, signal)
}

/** What a step waits for, now. */
function waitsOf(change: Change, running: Running, { step, since, limit, pending }: Waiting): Waits {
  const { going, names } = change
  const { targets } = going
  const unloading = unloadingOf(change)
  const parking = [...(pending ?? [])].flatMap(one => parkingOf(one, running))
  const groups = targets.map(target => ({ provider: named(target), storages: running.ledger.entriesOf(target) }))
  // A dependent has to end what it has open itself.
  for (const provider of running.providers.all()) {
    const isTarget = targets.some(({ module }) => module === provider.module)
    if (!isTarget && provider.instances.some(({ fiber }) => unloading.has(fiber)))
      groups.push({ provider: named(provider), storages: running.ledger.entriesOf(provider) })
  }
  const left = limit - (now() - since)
  return {
    step,
    providers: targets.map(named),
    parking: parking.slice(0, SHOWN),
    parkingTotal: parking.length,
    open: groups
      .flatMap(oldestOf)
      .toSorted((a, b) => a.since - b.since)
      .slice(0, SHOWN),
    total: groups.reduce((sum, { storages }) => sum + countOpen(storages), 0),
    unloading: [...unloading]
      .slice(0, SHOWN)
      .map(([fiber, uses]): Unloading => ({ name: names.get(fiber) ?? nameOf(fiber, running), uses })),
    left: limit === Infinity ? null : Math.max(0, left)
  }
}

function oldestOf({ provider, storages }: { provider: string; storages: LedgerEntry[] }): AwaitedBoundary[] {
  return openIn(storages, SHOWN).map(boundary => ({ ...boundary, provider }))
}

/** A listener is shown by the drivers that it waits for, where it has named them. */
function parkingOf({ fiber, drivers }: Pending, running: Running): Parking[] {
  const provider = nameOf(fiber, running)
  if (drivers.size === 0) return [{ provider }]
  return [...drivers].map(({ name, step }) => ({ provider, driver: name, ...(step !== undefined && { step }) }))
}

/** Old instances whose disposal has not ended, and dependents that unload, with the services for which they do. */
function unloadingOf({ going, closing }: Change): Map<Fiber, string[]> {
  const found = new Map<Fiber, string[]>()
  if (!closing) return found
  for (const fiber of going.dependents) {
    if (!isUnloading(fiber)) continue
    found.set(
      fiber,
      Object.keys(fiber.inject).filter(name => closing.services.includes(name))
    )
  }
  for (const { fiber } of going.targets.flatMap(({ instances }) => instances))
    if (isUnloading(fiber) && isWithin(fiber, closing.going)) found.set(fiber, [])
  return found
}

/** What goes is called: Cordis forgets it before its disposers have ended. */
export function namesOf({ targets, dependents }: Going, running: Running): Change['names'] {
  const going = [...targets.flatMap(({ instances }) => instances.map(({ fiber }) => fiber)), ...dependents]
  return new Map(going.map(fiber => [fiber, nameOf(fiber, running)]))
}

/** The provider that a fiber belongs to; else what it is called itself. */
function nameOf(fiber: Fiber, { providers }: Running): string {
  for (let at: Fiber | undefined = fiber; at; at = at.runtime ? at.parent.fiber : undefined) {
    const name = providers.titleOf(at)
    if (name !== undefined) return name
  }
  return fiber.name
}

function named({ name, generation }: { name: string; generation: number }): string {
  return `${name} ${generation}`
}
