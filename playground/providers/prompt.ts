import { Service, type Context } from 'cordis'
import type { Agent } from './agents.ts'

/** For whom a prompt is assembled; `undefined` outside any agent. */
export interface AssembleContext {
  agent: Agent | undefined
  signal?: AbortSignal
}

/** A part of the system prompt. */
export interface PromptSection {
  name: string
  /** Sections are put in ascending order; 0 by default. */
  order?: number
  render(context: AssembleContext): string | Promise<string>
}

declare module 'cordis' {
  interface Context {
    prompt: PromptAssembly
  }
}

/** The system prompt, put together from what providers contribute (`ctx.prompt`). */
export class PromptAssembly extends Service {
  private readonly sections = new Set<{ section: PromptSection; owner: Agent | undefined }>()

  constructor(ctx: Context) {
    super(ctx, 'prompt')
  }

  /** Contributes a section until the caller's fiber is disposed; through `agent.ctx`, for that agent alone. */
  contribute(section: PromptSection): () => unknown {
    const { ctx, sections } = this
    return ctx.effect(() => {
      const entry = { section, owner: 'agent' in ctx ? ctx.agent : undefined }
      sections.add(entry)
      return () => sections.delete(entry)
    }, `prompt.contribute("${section.name}")`)
  }

  /** The system prompt of `context.agent`. */
  async assemble(context: AssembleContext): Promise<string> {
    const sections = [...this.sections]
      .filter(({ owner }) => owner === undefined || owner === context.agent)
      .map(({ section }) => section)
      .toSorted((a, b) => (a.order ?? 0) - (b.order ?? 0))
    const texts = await Promise.all(sections.map(async section => section.render(context)))
    return texts.join('\n')
  }
}

export default PromptAssembly
