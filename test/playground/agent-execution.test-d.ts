/** Code as it was written for the RFC's first version: it compiles, or `npm run typecheck` fails. */
import type { Context } from 'cordis'
import type { AgentExecution, AgentExecutionService } from '../../playground/providers/agent-execution.ts'
import type { Agent } from '../../playground/providers/agents.ts'

type Same<A, B> = (<T>() => T extends A ? 1 : 2) extends <T>() => T extends B ? 1 : 2 ? true : false
const yes = <T extends true>(): T | undefined => undefined

/** The two interfaces, letter by letter as the RFC has them. */
interface Frame {
  readonly agent: Agent
}
interface Service {
  current(): Frame | undefined
  require(): Frame
  run<T>(execution: Frame | undefined, operation: () => T): T
}

yes<Same<AgentExecution, Frame>>()
yes<Same<AgentExecutionService, Service>>()
yes<Same<Context['agentExecution'], AgentExecutionService>>()

/** A loop and a transport of the first version. */
export class FirstLoop {
  static inject = ['agentExecution']
  private readonly agentExecution: AgentExecutionService

  constructor(ctx: Context) {
    this.agentExecution = ctx.agentExecution
  }

  drive(agent: Agent, runLoop: () => Promise<void>): Promise<void> {
    return this.agentExecution.run({ agent }, runLoop)
  }

  detached(every: number, look: () => void): NodeJS.Timeout {
    return this.agentExecution.run(undefined, () => setInterval(look, every))
  }

  headers(): { 'X-Harness-Session-Id': string } {
    return { 'X-Harness-Session-Id': this.agentExecution.require().agent.session.id }
  }

  who(): string | undefined {
    const execution: AgentExecution | undefined = this.agentExecution.current()
    return execution?.agent.id
  }

  rename(execution: AgentExecution, agent: Agent): void {
    // @ts-expect-error A frame is not to be changed.
    execution.agent = agent
  }
}

/** Somebody else's implementation serves as well. */
export const another = (agent: Agent): AgentExecutionService => ({
  current: () => ({ agent }),
  require: () => ({ agent }),
  run: (_, operation) => operation()
})
