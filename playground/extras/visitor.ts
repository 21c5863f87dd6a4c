import type { Context } from 'cordis'
import type { Agent } from '../providers/agents.ts'

/** Options of the visitor. */
export interface VisitorConfig {
  /** Milliseconds between two visits. */
  every?: number
}

const QUESTIONS = [
  'What do you know about owls?',
  'use add 19 23 then wait 800',
  'Tell me, slow and in order, what tides do',
  'use lookup bridges and lookup rivers',
  'spawn: use wait 600 then lookup tides',
  'use note water the plants'
]

/** Asks an idle agent something now and then, so that there is always something to watch. */
export class Visitor {
  static inject = ['agents']

  constructor(ctx: Context, { every = 2500 }: VisitorConfig = {}) {
    const { agents } = ctx
    // Whom and what to ask is read from the sessions: a visitor that was reloaded does not start over.
    const asked = (agent: Agent) => agent.session.events.filter(({ type }) => type === 'prompt').length
    const visit = () => {
      const [agent] = agents
        .list()
        .filter(resident => resident.idle && !resident.parent)
        .toSorted((a, b) => asked(a) - asked(b))
      agent?.prompt(QUESTIONS[asked(agent) % QUESTIONS.length]!)
    }
    ctx.effect(() => {
      // The timer is nobody's: it must not inherit the agent that happens to be running.
      const timer = agents.withoutInitiator(() => setInterval(visit, every))
      return () => clearInterval(timer)
    }, 'visitor.timer()')
  }
}

export default Visitor
