import type { Context } from '@deepseek-ai/cordis'
import AgentRegistry from '@deepseek-ai/dsh-agent'
import AgentLoop from '@deepseek-ai/dsh-agent-loop'
import LlmRuntime from '@deepseek-ai/dsh-llm'
import SessionStore, { SessionId } from '@deepseek-ai/dsh-session'
import JsonlSessionPersistence from '@deepseek-ai/dsh-session-persistence-jsonl'
import SystemPrompt from '@deepseek-ai/dsh-system-prompt'
import ToolRuntime from '@deepseek-ai/dsh-tools'
import * as parking from 'harness-hmr/dsh'
import * as calculator from './providers/calculator.ts'
import * as driver from './providers/driver.ts'
import * as simulatedLlm from './providers/simulated-llm.ts'

/** Two agents, a simulated model, a tool, and somebody who gives the agents work. */
export default function harness(ctx: Context) {
  ctx.plugin(LlmRuntime)
  ctx.plugin(SessionStore)
  ctx.plugin(SystemPrompt, {})
  ctx.plugin(ToolRuntime, {})
  ctx.plugin(AgentRegistry)
  ctx.plugin(JsonlSessionPersistence, { root: process.env.SESSIONS ?? '.sessions', compression: 'none' })
  ctx.plugin(parking)
  ctx.plugin(simulatedLlm)
  ctx.plugin(calculator)
  ctx.plugin(AgentLoop, {
    agents: ['alpha', 'beta'].map(id => ({
      id,
      sessionId: SessionId(`${id}-1`),
      provider: 'simulated',
      model: 'one'
    }))
  })
  ctx.plugin(driver, { every: 300 })
}
