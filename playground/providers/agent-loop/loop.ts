import type { Context } from 'cordis'
import type { Agent } from '../agents.ts'
import type { Driver } from './driver.ts'

/** What the functions of the loop share. The agent is not in it: each of them asks who initiated it. */
export interface Loop extends Pick<Context, 'agents' | 'tools' | 'prompt' | 'llm'> {
  driverOf(agent: Agent): Driver
  emit(agent: Agent, delta: AgentDelta): void
  /** What others have to do before the agent's next step; rejects when one of them fails or `signal` aborts it. */
  beforeStep(agent: Agent, signal: AbortSignal): Promise<void>
}

/** A piece of an answer that is being streamed; nothing of it is on record. */
export interface AgentDelta {
  promptId: string
  step: number
  text: string
}
