/** Close: drivers park, then the old instances are told to end. */
import type { Change, Closing } from './change.ts'
import { contain } from '../guard/contain.ts'
import type { Fiber } from '../cordis/cordis.ts'
import type { Fibers } from '../cordis/fibers.ts'
import type { BoundaryScope } from '../scope.ts'
import { type Pending, tell, type WaitsFor } from './parking.ts'
import type { Running } from './running.ts'
import type { Steps } from './steps.ts'
import { withAny, within } from '../guard/within.ts'
import { namesOf, waitFor } from './waits.ts'

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
  /** Says whom this listener waits for, and what that has to end first: the page and the terminal name both. */
  waitsFor: WaitsFor
}

/**
 * Emits `harness-hmr/before-reload`, waits at most `grace` ms for drivers to park, then starts to dispose the old instances.
 */
export async function close(change: Change, running: Running, steps: Steps, abandon?: AbortSignal): Promise<void> {
  const { fibers, limits, stopped } = running
  const { targets, instances, dependents, scopes } = change.going
  const fibersOf = instances.map(({ fiber }) => fiber)
  const going = new Set<Fiber>(fibersOf)
  const over = new AbortController()
  change.names = namesOf(change.going, running)
  const services = fibers.services(new Set([...going, ...dependents]))
  const event: Omit<BeforeReload, 'waitsFor'> = {
    providers: targets.map(({ module, name, generation }) => ({ module, name, generation })),
    services,
    uses: fibers.uses(going),
    signal: over.signal
  }
  const drained = drains(scopes)
  // A handler that fails has not parked its driver; the disposal that follows stops it all the same.
  const failed: unknown[] = []
  const pending = new Set<Pending>()
  const told = tell(fibers, 'harness-hmr/before-reload', waitsFor => ({ ...event, waitsFor }), pending)
  const parked = told.then(errors => failed.push(...errors))
  const waiting = { step: 'close', limit: limits.grace, pending } as const
  await withAny([stopped, abandon], signal => waitFor(parked, waiting, signal, change, running, steps))
  over.abort()
  const gone = Promise.all(fibersOf.map(fiber => dispose(fiber, going, failed)))
  change.closing = { failed, gone, going, drained, services }
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

async function dispose(fiber: Fiber, going: Set<Fiber>, failed: unknown[]): Promise<void> {
  failed.push(...(await contain('disposer of an effect', () => fiber.dispose())))
  going.delete(fiber)
}
