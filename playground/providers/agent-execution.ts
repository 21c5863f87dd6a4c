import type { Context } from 'cordis'
import { BoundaryScope } from 'harness-hmr/scope'
import { closeOnUnload, letGo } from '../unload.ts'
import type { Agent, AgentRegistry } from './agents.ts'

/** The frame of the RFC's first version: what is current while an agent executes. */
export interface AgentExecution {
  readonly agent: Agent
}

/** The service of the RFC's first version. */
export interface AgentExecutionService {
  /**
   * The frame of the agent that executes, if any; the same one at each call within a boundary.
   * @throws after disposal.
   */
  current(): AgentExecution | undefined
  /**
   * The frame of the agent that executes.
   * @throws when there is none, and after disposal.
   */
  require(): AgentExecution
  /**
   * Runs `operation` for an agent, or for none, and returns exactly what it returns.
   * @throws while the service closes, and after.
   */
  run<T>(execution: AgentExecution | undefined, operation: () => T): T
}

declare module 'cordis' {
  interface Context {
    agentExecution: AgentExecutionService
  }
}

const name = 'agent execution service'

/**
 * `ctx.agentExecution`, for code written for the RFC's first version. The agent itself is carried by `ctx.agents`, whose
 * boundaries, the drivers among them, are thereby boundaries of this service too: it closes with the registry, and when it
 * ends with the registry it stays readable until they have drained.
 */
export class AgentExecutionProvider implements AgentExecutionService {
  static inject = ['agents']
  private readonly agents: AgentRegistry
  private readonly given = new BoundaryScope<AgentExecution>({ name, label: ({ agent }) => agent.id })
  /** The frames of boundaries that the registry has opened. */
  private readonly made = new WeakMap<Agent, AgentExecution>()
  /** Ended while the registry lives on. */
  private endedAlone = false

  constructor(ctx: Context) {
    this.agents = ctx.agents
    const { given } = this
    const close = () => {
      given.close()
      letGo(given)
    }
    const provide = () => ctx.reflect.provide('agentExecution', this)
    const end = async () => {
      await given.dispose()
      this.endedAlone = this.agents.initiatorState === 'open'
    }
    ctx.effect(function* () {
      yield* closeOnUnload(ctx, close)
      yield end
      yield provide()
    }, 'agentExecution.lifecycle()')
  }

  current(): AgentExecution | undefined {
    if (this.endedAlone || this.agents.initiatorState === 'disposed') throw new Error(`${name} is disposed`)
    const agent = this.agents.currentInitiator()
    return agent && this.frameOf(agent)
  }

  require(): AgentExecution {
    const execution = this.current()
    if (!execution) throw new Error('no agent execution context is active')
    return execution
  }

  run<T>(execution: AgentExecution | undefined, operation: () => T): T {
    const { agents, given } = this
    if (agents.initiatorState !== 'open') given.close()
    return given.run(execution, () =>
      execution ? agents.withInitiator(execution.agent, operation) : agents.withoutInitiator(operation)
    )
  }

  private frameOf(agent: Agent): AgentExecution {
    const given = this.given.state === 'disposed' ? undefined : this.given.current()
    if (given?.agent === agent) return given
    const made = this.made.get(agent) ?? { agent }
    this.made.set(agent, made)
    return made
  }
}

export default AgentExecutionProvider
