import type { Context, Fiber } from 'cordis'
import type { BoundaryScope } from 'harness-hmr/scope'

/** `FiberState.UNLOADING`: the enum is ambient and const, so that its members cannot be imported. */
export const isUnloading = ({ state }: { state: number }): boolean => state === 5

/** Whether `fiber` ends with `ancestor`: it is the same one or beneath it. */
export function isWithin(fiber: Fiber, ancestor: Fiber): boolean {
  for (; fiber !== ancestor; fiber = fiber.parent.fiber) if (fiber.parent.fiber === fiber) return false
  return true
}

/**
 * Calls `close` as soon as the fiber of `ctx`, or one above it, starts to unload, in the chain that starts it: its other
 * effects end at the same time. Called again for each that joins an unload which somebody else has begun.
 * Yields the effects to nest.
 */
export function* closeOnUnload(ctx: Context, close: () => void): Generator<() => unknown, void> {
  yield ctx.on('internal/status', fiber => {
    if (isUnloading(fiber) && isWithin(ctx.fiber, fiber)) close()
  })
  yield ctx.on('internal/plugin', fiber => {
    if (fiber.uid === null && isWithin(ctx.fiber, fiber)) close()
  })
}

/** The boundaries that the caller runs in are not waited for by a teardown that he waits for. */
export function letGo(scope: Pick<BoundaryScope<{}>, 'state' | 'drain'>): void {
  if (scope.state !== 'disposed') void scope.drain()
}
