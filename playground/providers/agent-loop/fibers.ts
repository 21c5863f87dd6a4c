import type { Context, Fiber } from 'cordis'

/** Whether `fiber` provides one of `services`, or needs one, itself or through what it needs. */
export function dependsOn(fiber: Fiber, services: readonly string[], seen = new Set<Fiber>()): boolean {
  if (seen.has(fiber)) return false
  seen.add(fiber)
  return Object.entries(fiber.store ?? {}).some(
    ([name, impl]) => services.includes(name) || dependsOn(impl.fiber, services, seen)
  )
}

/** They start with the same services as the loop: without this wait a resumed agent could miss its tool by a tick. */
export async function contributors(ctx: Context): Promise<void> {
  const fibers = [...ctx.registry.values()].flatMap(runtime => [...runtime.fibers])
  const others = fibers.filter(fiber => fiber !== ctx.fiber && ('tools' in fiber.inject || 'prompt' in fiber.inject))
  await Promise.allSettled(others.map(fiber => fiber.await()))
}
