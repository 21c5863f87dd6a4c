/** Close and drain: let drivers park, dispose the old instances, and wait for what is still in flight, but not for ever. */
import type { Fiber } from './cordis.ts'
import type { Fibers, Instance } from './fibers.ts'
import { leftEnabled, type LedgerEntry } from './ledger.ts'
import type { BoundaryScope, Drained } from './scope.ts'
import { within } from './within.ts'

/** The argument of `harness-hmr/before-reload`, emitted on the root context before old instances are disposed. */
export interface BeforeReload {
  /** The services that go away, so that a driver can tell whether it is concerned. */
  services: string[]
  /** Aborted when the time for parking (`grace`) is over. */
  signal: AbortSignal
}

/** What is being waited for after close. */
export interface Closing {
  /** Resolves when every old instance is gone. */
  gone: Promise<unknown>
  /** The old instances that are not gone yet. */
  going: ReadonlySet<Fiber>
  /** What handlers of `harness-hmr/before-reload` threw. */
  failed: unknown[]
  /** Per scope, how its drain ended; a scope is missing until then. */
  drained: Map<BoundaryScope<never>, Drained>
}

/** What became of a provider's boundaries. */
export interface BoundaryCounts extends Drained {
  /** Still open at the deadline. */
  abandoned: number
}

/** Emits `harness-hmr/before-reload`, waits at most `grace` ms for drivers to park, then starts to dispose `instances`. */
export async function close(
  instances: Instance[],
  fibers: Fibers,
  scopes: BoundaryScope<never>[],
  grace: number
): Promise<Closing> {
  const fibersOf = instances.map(({ fiber }) => fiber)
  const going = new Set<Fiber>(fibersOf)
  const drained: Closing['drained'] = new Map()
  for (const scope of scopes) {
    // The provider disposes the scope at the same time; who comes too late has nothing left to count.
    scope.drain().then(
      count => drained.set(scope, count),
      () => {}
    )
  }
  const over = new AbortController()
  const event: BeforeReload = { services: fibers.services(going), signal: over.signal }
  // A handler that fails has not parked its driver; the disposal that follows stops it all the same.
  const failed: unknown[] = []
  await within(
    grace,
    tell(fibers, 'harness-hmr/before-reload', event).then(errors => failed.push(...errors))
  )
  over.abort()
  return { failed, gone: Promise.allSettled(fibersOf.map(fiber => dispose(fiber, going))), going, drained }
}

/** Emits an event and waits for its handlers; resolves with what they threw, by the event's name. */
export async function tell({ root }: Fibers, event: string, ...args: unknown[]): Promise<unknown[]> {
  try {
    await root.parallel(event, ...args)
    return []
  } catch (error) {
    const errors: unknown[] = error instanceof AggregateError ? error.errors : [error]
    return errors.map(
      cause => new Error(`${event}: ${cause instanceof Error ? cause.message : String(cause)}`, { cause })
    )
  }
}

async function dispose(fiber: Fiber, going: Set<Fiber>): Promise<void> {
  // A loader takes the end of an entry's fiber for the user's wish, and writes it into the configuration file.
  fiber.entry = undefined
  await fiber.dispose()
  going.delete(fiber)
}

/** Waits until the old instances are gone; false when the deadline, or whoever aborts `signal`, came first. */
export async function drain(
  { gone }: Closing,
  { deadline, warnAfter }: { deadline: number; warnAfter: number },
  onSlow: () => void,
  signal?: AbortSignal
): Promise<boolean> {
  if (await within(Math.min(warnAfter, deadline), gone, signal)) return true
  if (signal?.aborted) return false
  onSlow()
  return within(deadline - warnAfter, gone, signal)
}

/** Disables what a generation left enabled; a scope that was disposed has done so itself. Returns what had been forgotten. */
export function disable(entries: LedgerEntry[]): LedgerEntry[] {
  const forgotten = leftEnabled(entries)
  for (const { storage, scope } of entries) if (scope?.deref()?.state !== 'disposed') storage.deref()?.disable()
  return forgotten
}

/** What became of the boundaries of `scopes`. */
export function countBoundaries(scopes: BoundaryScope<never>[], { drained }: Closing): BoundaryCounts {
  const counts = { drained: 0, released: 0, abandoned: 0 }
  for (const scope of scopes) {
    if (scope.state !== 'disposed') counts.abandoned += scope.size
    counts.drained += drained.get(scope)?.drained ?? 0
    counts.released += drained.get(scope)?.released ?? 0
  }
  return counts
}

/** The live scopes among storages. */
export function scopesOf(entries: LedgerEntry[]): BoundaryScope<never>[] {
  return entries.flatMap(({ scope }) => {
    const alive = scope?.deref()
    return alive && alive.state !== 'disposed' ? [alive] : []
  })
}
