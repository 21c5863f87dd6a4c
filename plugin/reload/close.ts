/** Close: drivers park, then the old instances are told to end. */
import type { Change, Closing } from './change.ts'
import { contain, thrownBy } from '../guard/contain.ts'
import type { Fiber } from '../cordis/cordis.ts'
import type { Fibers } from '../cordis/fibers.ts'
import type { BoundaryScope } from '../scope.ts'
import type { Running } from './running.ts'
import { within } from '../guard/within.ts'

/** The argument of `harness-hmr/before-reload`, emitted on the root context before old instances are disposed. */
export interface BeforeReload {
  /** The providers that are replaced, with the generation that goes. */
  providers: { module: string; name: string; generation: number }[]
  /** Every service that goes away for a while, those of dependents included: a driver can tell whether it is concerned. */
  services: string[]
  /** Every service that what goes runs on: who drives those can tell a tool or an adapter, whose callers would find nobody. */
  uses: string[]
  /** Aborted when the time for parking (`grace`) is over. */
  signal: AbortSignal
}

/**
 * Emits `harness-hmr/before-reload`, waits at most `grace` ms for drivers to park, then starts to dispose the old instances.
 */
export async function close(change: Change, { fibers, limits, stopped }: Running): Promise<void> {
  const { targets, instances, dependents, scopes } = change.going
  const fibersOf = instances.map(({ fiber }) => fiber)
  const going = new Set<Fiber>(fibersOf)
  const over = new AbortController()
  const event: BeforeReload = {
    providers: targets.map(({ module, name, generation }) => ({ module, name, generation })),
    services: fibers.services(new Set([...going, ...dependents])),
    uses: fibers.uses(going),
    signal: over.signal
  }
  const drained = drains(scopes)
  // A handler that fails has not parked its driver; the disposal that follows stops it all the same.
  const failed: unknown[] = []
  const told = tell(fibers, 'harness-hmr/before-reload', event).then(errors => failed.push(...errors))
  await within(limits.grace, told, stopped)
  over.abort()
  const gone = Promise.all(fibersOf.map(fiber => dispose(fiber, going, failed)))
  change.closing = { failed, gone, going, drained }
}

/** Starts to count what the drain of each scope waits for. */
function drains(scopes: BoundaryScope<never>[]): Closing['drained'] {
  const drained: Closing['drained'] = new Map()
  for (const scope of scopes) {
    // The provider disposes the scope at the same time; who comes too late has nothing left to count.
    scope.drain().then(
      count => drained.set(scope, count),
      () => {}
    )
  }
  return drained
}

/** Waits for the old instances; those that have not ended in time are left behind. */
export async function goneOrLeft(closing: Closing, { fibers, limits, stopped }: Running): Promise<void> {
  if (!(await within(limits.deadline, closing.gone, stopped))) leaveBehind(closing, fibers)
}

/** Takes the services of those that have not ended, so that successors can provide them. */
export function leaveBehind({ gone, going }: Closing, fibers: Fibers): void {
  void gone.then(fibers.evict(new Set(going)))
}

/** Emits an event and waits for its handlers; resolves with what they threw, by the event's name. */
export async function tell(
  { root }: Fibers,
  event: 'harness-hmr/before-reload' | 'harness-hmr/after-reload',
  ...args: unknown[]
): Promise<unknown[]> {
  try {
    await root.parallel(event, ...args)
    return []
  } catch (error) {
    const errors: unknown[] = error instanceof AggregateError ? error.errors : [error]
    return errors.map(cause => thrownBy(event, cause))
  }
}

async function dispose(fiber: Fiber, going: Set<Fiber>, failed: unknown[]): Promise<void> {
  failed.push(...(await contain('disposer of an effect', () => fiber.dispose())))
  going.delete(fiber)
}
