/** Install: successors in the places of old instances, all or none, and every dependent back on its feet. */
import { type Fiber, FiberState } from './cordis.ts'
import { type Fibers, type Instance, isActive, isBusy, isUnloading, settled } from './fibers.ts'
import { within } from './within.ts'

/** An old instance and the plugin that takes its place. */
export interface Replacement {
  instance: Instance
  plugin: unknown
}

/**
 * Applies each plugin on the parent context of the instance that it replaces, in the old order and with the raw config,
 * then waits for the dependents. What was `active` before has to be active again.
 * @param created - gets the objects of what is installed, by module and instance, also when it does not stay.
 * @throws what a plugin throws, or an error that names who did not come back. Nothing stays installed then.
 */
export async function install(
  replacements: Replacement[],
  dependents: Iterable<Fiber>,
  active: ReadonlySet<Fiber>,
  fibers: Fibers,
  deadline: number,
  created = new Map<string, WeakRef<object>[][]>()
): Promise<true> {
  const installed: Fiber[] = []
  try {
    // Whose disposers have not ended by now was abandoned; others may wait for its service, and come back after it.
    const isHeldUp = [...dependents].some(isUnloading)
    const expected = [...dependents].filter(fiber => active.has(fiber) && !isUnloading(fiber))
    for (const { instance, plugin } of replacements) {
      const { parent } = instance.fiber
      // A parent that went away meanwhile took its children with it.
      if (parent.fiber.uid === null) continue
      const fiber = await fibers.install(parent, plugin, instance.config, deadline, instance.fiber)
      if (instance.entry) Object.assign(instance.entry, { fiber })
      installed.push(fiber)
      const objects = fibers.objects(fiber).map(object => new WeakRef(object))
      created.set(instance.module, [...(created.get(instance.module) ?? []), objects])
      if (active.has(instance.fiber) || fibers.fill(instance)) expected.push(fiber)
    }
    retryFailed(installed, fibers)
    await within(
      deadline,
      settled(() => expected)
    )
    for (const fiber of expected) {
      if (isHeldUp && fiber.state === FiberState.PENDING) continue
      await assertActive(fiber, installed.includes(fiber) ? 'provider' : 'dependent')
    }
    return true
  } catch (error) {
    for (const fiber of installed.toReversed()) await fibers.dispose(fiber, deadline)
    throw error
  }
}

/** Fibers that failed on a service that is replaced now: Cordis itself never runs them again. */
function retryFailed(installed: Fiber[], fibers: Fibers): void {
  const services = fibers.services(new Set(installed))
  for (const fiber of fibers.all()) {
    if (fiber.state === FiberState.FAILED && services.some(name => name in fiber.inject)) fibers.retry(fiber)
  }
}

async function assertActive(fiber: Fiber, role: 'provider' | 'dependent'): Promise<void> {
  // Disposed: it belonged to a parent that has applied it anew.
  if (fiber.uid === null || isActive(fiber)) return
  const cause = isBusy(fiber) ? undefined : await failureOf(fiber)
  const why = cause instanceof Error ? cause.message : reason(fiber)
  throw new Error(`${role} "${fiber.name}" did not come back: ${why}`, { cause })
}

function reason(fiber: Fiber): string {
  if (isBusy(fiber)) return 'it is still loading'
  const missing = Object.keys(fiber.inject).filter(name => fiber.ctx.get(name) === undefined)
  return missing.length > 0 ? `it waits for ${missing.map(name => `"${name}"`).join(', ')}` : 'it is not active'
}

/** What a fiber failed with, if it did. */
async function failureOf(fiber: Fiber): Promise<unknown> {
  return fiber.await().then(
    () => undefined,
    (error: unknown) => error
  )
}
