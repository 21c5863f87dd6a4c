/** Who listens to an event: Cordis calls all of them at once, and says of none whether it has ended, nor whose it is. */
import type { Context, Fiber } from './cordis.ts'

/** A listener, and the fiber that it ends with. */
export interface Listener {
  fiber: Fiber
  call: (...args: unknown[]) => unknown
}

/** The listeners of an event that is emitted on the root, in the order in which Cordis calls them. */
export function listenersOf({ events }: Context, event: string): Listener[] {
  return (events._hooks[event] ?? []).map(({ ctx, callback }) => ({ fiber: ctx.fiber, call: callback }))
}
