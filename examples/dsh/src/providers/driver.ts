// Gives each agent its next task, always one more than it is at work on, and says what it has answered.
import type { Context } from '@deepseek-ai/cordis'
import type { Agent } from '@deepseek-ai/dsh-agent'
import { createUserMessage } from '@deepseek-ai/dsh-llm'

export const name = 'driver'
export const inject = ['agents']

/** How often a message went into an agent's inbox for the first time: what is given back after a reload keeps its id. */
const asked = ({ session }: Agent) =>
  new Set(
    session.events.flatMap(({ type, data }) =>
      type === 'agent/inbox/spliced'
        ? data.inserted.filter(({ source }) => source.kind === 'user').map(({ id }) => id)
        : []
    )
  ).size

export function apply(ctx: Context, { every }: { every: number }) {
  const timer = setInterval(() => {
    for (const agent of ctx.agents.list()) {
      if (agent.inbox.nextTurn.length > 0) continue
      const content = [{ type: 'text' as const, text: `task ${asked(agent) + 1}` }]
      agent.followup(createUserMessage({ content, source: { kind: 'user' } }))
    }
  }, every)
  ctx.effect(() => () => clearInterval(timer))
}
