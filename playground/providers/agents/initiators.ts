import type { Context, Fiber } from 'cordis'
import { BoundaryScope } from 'harness-hmr/scope'
import type { Agent } from '../agents.ts'

/** `FiberState.UNLOADING`: the enum is ambient and const, so that its members cannot be imported. */
const isUnloading = ({ state }: { state: number }): boolean => state === 5

/** The initiating agent of an asynchronous operation: the carrier behind `ctx.agents` (RFC, "Decision"). */
export class Initiators {
  private readonly scope = new BoundaryScope<Agent>({ name: 'agent initiator scope', label: agent => agent.id })

  /** Whether boundaries can be opened, and read. */
  get state(): BoundaryScope<Agent>['state'] {
    return this.scope.state
  }

  /** The agent whose boundary the caller runs in, if any. */
  current(): Agent | undefined {
    return this.scope.current()
  }

  /** The agent whose boundary the caller runs in, or an error. */
  require(): Agent {
    const agent = this.current()
    if (!agent) throw new Error('no initiating agent is active')
    return agent
  }

  /** Opens a boundary for `agent`, or one that hides the inherited agent. */
  run<R>(agent: Agent | undefined, operation: () => R): R {
    return this.scope.run(agent, operation)
  }

  /** New boundaries are refused from now on. */
  close(): void {
    this.scope.close()
  }

  /** Waits for the open boundaries, except those that started this, and ends the scope. */
  dispose(): Promise<void> {
    return this.scope.dispose()
  }

  /**
   * Closes as soon as the fiber of `ctx`, or one above it, starts to unload: its other effects end at the same time.
   * @returns the effect to nest.
   */
  closeOnUnload(ctx: Context): () => unknown {
    return ctx.on('internal/status', fiber => {
      if (isUnloading(fiber) && isWithin(ctx.fiber, fiber)) this.close()
    })
  }
}

function isWithin(fiber: Fiber, ancestor: Fiber): boolean {
  for (; fiber !== ancestor; fiber = fiber.parent.fiber) if (fiber.parent.fiber === fiber) return false
  return true
}
