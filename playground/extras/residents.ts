import { Service, type Context } from 'cordis'

/** The agents that a harness has from its first start, each with its first prompts. */
export type ResidentsConfig = Record<string, readonly string[]>

/** Sees to it that the resident agents are there; what is on record already is left as it is. */
export class Residents {
  static inject = ['agents', 'sessions', 'agentLoop']
  private readonly ctx: Context
  private readonly residents: ResidentsConfig

  constructor(ctx: Context, residents: ResidentsConfig = {}) {
    this.ctx = ctx
    this.residents = residents
  }

  async [Service.init](): Promise<void> {
    const { sessions } = this.ctx
    // They are the harness', and stay when this provider is replaced.
    const { agents } = this.ctx.root
    for (const [id, prompts] of Object.entries(this.residents)) {
      if (sessions.read(id).some(event => event.type === 'ended')) continue
      const agent = sessions.read(id).length > 0 ? await agents.resume({ id }) : await agents.create({ id })
      // The ids make this safe to repeat, also when the process died between two prompts.
      prompts.forEach((text, index) => agent.prompt(text, { promptId: `first-${index}` }))
    }
  }
}

export default Residents
