import type { Context } from 'cordis'
import { BoundaryScope } from 'harness-hmr/scope'
import type { Agent, AgentRegistry } from './agents.ts'

/** What is current while an agent executes. */
export interface AgentFrame {
  agent: Agent
}

declare module 'cordis' {
  interface Context {
    agentExecution: AgentExecution
  }
}

/** `ctx.agentExecution`, for code written for the RFC's first version; the agent itself is carried by `ctx.agents`. */
export class AgentExecution {
  static inject = ['agents']
  private readonly agents: AgentRegistry
  private readonly frames = new BoundaryScope<AgentFrame>({
    name: 'agent execution service',
    label: ({ agent }) => agent.id
  })

  constructor(ctx: Context) {
    this.agents = ctx.agents
    const { frames } = this
    const provide = () => ctx.reflect.provide('agentExecution', this)
    ctx.effect(function* () {
      yield () => frames.dispose()
      yield provide()
      yield () => frames.close()
    }, 'agentExecution.lifecycle()')
  }

  /**
   * The frame of the agent that executes, if any.
   * @throws after disposal.
   */
  current(): AgentFrame | undefined {
    const frame = this.frames.current()
    const agent = this.agents.currentInitiator()
    if (!agent) return undefined
    return frame?.agent === agent ? frame : { agent }
  }

  /**
   * The frame of the agent that executes.
   * @throws when there is none, and after disposal.
   */
  require(): AgentFrame {
    const frame = this.current()
    if (!frame) throw new Error('no agent execution context is active')
    return frame
  }

  /**
   * Runs `operation` for an agent, or for none, and returns exactly what it returns.
   * @throws while the service closes, and after.
   */
  run<R>(frame: AgentFrame | undefined, operation: () => R): R {
    const { agents } = this
    return this.frames.run(frame, () =>
      frame ? agents.withInitiator(frame.agent, operation) : agents.withoutInitiator(operation)
    )
  }
}

export default AgentExecution
