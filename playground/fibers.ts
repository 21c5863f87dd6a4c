import type { Context, Fiber } from 'cordis'

/** `FiberState.UNLOADING`: the enum is ambient and const, so that its members cannot be imported. */
export const isUnloading = ({ state }: { state: number }): boolean => state === 5

/** Whether `fiber` ends with `ancestor`: it is the same one or beneath it. */
export function isWithin(fiber: Fiber, ancestor: Fiber): boolean {
  for (; fiber !== ancestor; fiber = fiber.parent.fiber) if (fiber.parent.fiber === fiber) return false
  return true
}

/**
 * Calls `close` as soon as the fiber of `ctx`, or one above it, starts to unload: its other effects end at the same time.
 * @returns the effect to nest.
 */
export function closeOnUnload(ctx: Context, close: () => void): () => unknown {
  return ctx.on('internal/status', fiber => {
    if (isUnloading(fiber) && isWithin(ctx.fiber, fiber)) close()
  })
}
