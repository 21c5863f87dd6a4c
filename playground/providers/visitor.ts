import type { Context } from 'cordis'

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
    let visits = 0
    const visit = () => {
      const idle = agents.list().filter(agent => agent.idle)
      if (idle.length === 0) return
      idle[visits % idle.length]!.prompt(QUESTIONS[visits % QUESTIONS.length]!)
      visits++
    }
    ctx.effect(() => {
      // The timer is nobody's: it must not inherit the agent that happens to be running.
      const timer = agents.withoutInitiator(() => setInterval(visit, every))
      return () => clearInterval(timer)
    }, 'visitor.timer()')
  }
}

export default Visitor
