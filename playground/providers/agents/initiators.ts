import { BoundaryScope } from 'harness-hmr/scope'
import { letGo } from '../../unload.ts'

/** As much of an agent as is needed here. */
interface Identified {
  readonly id: string
}

/** The initiating agent of an asynchronous operation: the carrier behind `ctx.agents` (RFC, "Decision"). */
export class Initiators<A extends Identified> {
  private readonly scope = new BoundaryScope<A>({ name: 'agent initiator scope', label: agent => agent.id })
  private readonly closed = new AbortController()

  /**
   * Aborts when the scope closes, for what is waited for in a boundary and comes only after: the drain would wait for it.
   * None outside of every boundary.
   */
  get closing(): AbortSignal | undefined {
    return this.scope.isInside() ? this.closed.signal : undefined
  }

  /** Whether boundaries can be opened, and read. */
  get state(): BoundaryScope<A>['state'] {
    return this.scope.state
  }

  /** The agent whose boundary the caller runs in, if any. */
  current(): A | undefined {
    return this.scope.current()
  }

  /** The agent whose boundary the caller runs in, or an error. */
  require(): A {
    const agent = this.current()
    if (!agent) throw new Error('no initiating agent is active')
    return agent
  }

  /** Opens a boundary for `agent`, or one that hides the inherited agent. */
  run<R>(agent: A | undefined, operation: () => R): R {
    return this.scope.run(agent, operation)
  }

  /** New boundaries are refused from now on, and those of the caller are not waited for. */
  close(): void {
    this.scope.close()
    letGo(this.scope)
    this.closed.abort(new Error('agent initiator scope is disposed'))
  }

  /** Waits for the open boundaries, except those that started this, and ends the scope. */
  dispose(): Promise<void> {
    return this.scope.dispose()
  }
}
