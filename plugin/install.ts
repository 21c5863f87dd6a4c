/** Install: successors in the places of old instances, all or none, and every dependent back on its feet. */
import { type Fiber, type Fibers, FiberState, type Instance, isActive } from './fibers.ts'

/** An old instance and the plugin that takes its place. */
export interface Replacement {
  instance: Instance
  plugin: unknown
}

/**
 * Applies each plugin on the parent context of the instance that it replaces, in the old order and with the raw config,
 * then waits for the dependents. What was `active` before has to be active again.
 * @throws what a plugin throws, or an error that names who did not come back. Nothing stays installed then.
 */
export async function install(
  replacements: Replacement[],
  dependents: Iterable<Fiber>,
  active: ReadonlySet<Fiber>,
  fibers: Fibers
): Promise<true> {
  const installed: Fiber[] = []
  try {
    for (const { instance, plugin } of replacements) {
      const { parent } = instance.fiber
      // A parent that went away meanwhile took its children with it.
      if (parent.fiber.uid === null) continue
      const fiber = await fibers.install(parent, plugin, instance.config, instance.fiber)
      installed.push(fiber)
      if (active.has(instance.fiber) && !isActive(fiber))
        throw new Error(`provider "${fiber.name}" did not become active: ${reason(fiber)}`)
    }
    await comeBack(dependents, active, new Set(installed), fibers)
    return true
  } catch (error) {
    for (const fiber of installed.toReversed()) await fiber.dispose()
    throw error
  }
}

/** Waits for the fibers that run on a replaced service, and gives those that failed on it another try. */
async function comeBack(
  dependents: Iterable<Fiber>,
  active: ReadonlySet<Fiber>,
  installed: ReadonlySet<Fiber>,
  fibers: Fibers
): Promise<void> {
  const services = fibers.services(installed)
  for (const fiber of fibers.all()) {
    if (fiber.state === FiberState.FAILED && services.some(name => name in fiber.inject)) fibers.retry(fiber)
  }
  const waiting = [...dependents]
  for (let busy = waiting.filter(isBusy); busy.length > 0; busy = waiting.filter(isBusy)) {
    await Promise.allSettled(busy.map(async ({ inertia }) => inertia))
  }
  for (const fiber of waiting) {
    // Disposed: it belonged to a parent that has applied it anew. Unloading: its drain was abandoned.
    if (!active.has(fiber) || fiber.uid === null || isActive(fiber) || fiber.state === FiberState.UNLOADING) continue
    const cause = await fiber.await().then(
      () => undefined,
      (error: unknown) => error
    )
    throw new Error(
      `dependent "${fiber.name}" did not come back: ${cause instanceof Error ? cause.message : reason(fiber)}`,
      { cause }
    )
  }
}

/** A dependent that is still unloading after the deadline would block for ever. */
function isBusy({ inertia, state }: Fiber): boolean {
  return inertia !== undefined && state !== FiberState.UNLOADING
}

function reason(fiber: Fiber): string {
  const missing = Object.keys(fiber.inject).filter(name => fiber.ctx.get(name) === undefined)
  return missing.length > 0 ? `it waits for ${missing.map(name => `"${name}"`).join(', ')}` : 'it is not active'
}
