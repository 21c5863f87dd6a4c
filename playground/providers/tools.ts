import { Service, type Context, type Fiber } from 'cordis'
import type { Agent } from './agents.ts'

/** A parameter of a tool, as the model sees it. */
export interface ToolParameter {
  type: 'string' | 'number'
  description: string
}

/** A tool as the model sees it. No schema names an agent or a session: identity is not the model's to choose. */
export interface ToolSchema {
  name: string
  description: string
  parameters: Record<string, ToolParameter>
}

/** One execution of a tool. Everything that it concerns is said here. */
export interface ToolExecution {
  /** The agent that calls, `undefined` for a direct call. */
  agent: Agent | undefined
  callId: string
  name: string
  args: Record<string, unknown>
  /** The signal of the turn: aborts when the call is not wanted any more, or not now. */
  signal: AbortSignal
}

/** A tool. */
export interface Tool extends ToolSchema {
  /** A call that was cut off may be made again, with the same `callId`. */
  idempotent?: boolean
  /** The call only waits for something durable: it is cut off to let the agent park, and made again after. */
  yields?: boolean
  execute(execution: ToolExecution): string | Promise<string>
}

declare module 'cordis' {
  interface Context {
    tools: ToolRuntime
  }
}

interface Entry {
  tool: Tool
  owner: Agent | undefined
  fiber: Fiber
}

/** The tools that agents can call (`ctx.tools`). */
export class ToolRuntime extends Service {
  private readonly entries = new Set<Entry>()

  constructor(ctx: Context) {
    super(ctx, 'tools')
  }

  /**
   * Offers a tool until the caller's fiber is disposed; through `agent.ctx`, to that agent alone.
   * @throws when its owner has a tool of that name, or when it yields without being idempotent.
   */
  register(tool: Tool): () => unknown {
    const { ctx, entries } = this
    return ctx.effect(() => {
      const entry: Entry = { tool, owner: 'agent' in ctx ? ctx.agent : undefined, fiber: ctx.fiber }
      if ([...entries].some(other => other.tool.name === tool.name && other.owner === entry.owner)) {
        throw new Error(`tool "${tool.name}" is already registered`)
      }
      if (tool.yields && !tool.idempotent) throw new Error(`tool "${tool.name}": a tool that yields must be idempotent`)
      entries.add(entry)
      return () => entries.delete(entry)
    }, `tools.register("${tool.name}")`)
  }

  /** The tool that `agent` means by `name`: its own one first. */
  get(name: string, agent?: Agent): Tool | undefined {
    return this.visible(agent).get(name)
  }

  /** What the model of `agent` sees, by name. */
  list(agent?: Agent): ToolSchema[] {
    return [...this.visible(agent).values()]
      .map(({ name, description, parameters }) => ({ name, description, parameters }))
      .toSorted((a, b) => (a.name < b.name ? -1 : 1))
  }

  /** Runs a tool; rejects with what it throws, and when there is none of that name. */
  async execute(execution: ToolExecution): Promise<string> {
    const tool = this.get(execution.name, execution.agent)
    if (!tool) throw new Error(`tool "${execution.name}" is not registered`)
    execution.signal.throwIfAborted()
    return tool.execute(execution)
  }

  /** The fibers that offer tools now: who reloads one of them wants the agents to park. */
  owners(): Set<Fiber> {
    return new Set([...this.entries].map(entry => entry.fiber))
  }

  private visible(agent: Agent | undefined): Map<string, Tool> {
    const tools = new Map<string, Tool>()
    for (const { tool, owner } of this.entries) if (!owner) tools.set(tool.name, tool)
    for (const { tool, owner } of this.entries) if (owner && owner === agent) tools.set(tool.name, tool)
    return tools
  }
}

export default ToolRuntime
