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
  /** The directory that the call works in. */
  cwd: string
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

/** A call that must be approved of before it is made. Whose call it is, is said here and never looked up. */
export interface ApprovalRequest extends Omit<ToolExecution, 'agent'> {
  /** The agent whose call it is, `undefined` for a direct call. */
  subject: Agent | undefined
}

/** Somebody who is asked before each call. */
export interface Approver {
  name: string
  /** Says why the call must not be made; nothing lets it pass. Asked again when its signal has aborted. */
  object(request: ApprovalRequest): string | undefined | Promise<string | undefined>
}

declare module 'cordis' {
  interface Context {
    tools: ToolRuntime
  }
}

interface Owned {
  owner: Agent | undefined
  fiber: Fiber
}

type ToolEntry = Owned & { tool: Tool }
type ApproverEntry = Owned & { approver: Approver }

/** The tools that agents can call (`ctx.tools`). */
export class ToolRuntime extends Service {
  private readonly entries = new Set<ToolEntry>()
  private readonly approvers = new Set<ApproverEntry>()

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
      const entry = { tool, ...ownedBy(ctx) }
      if ([...entries].some(other => other.tool.name === tool.name && other.owner === entry.owner)) {
        throw new Error(`tool "${tool.name}" is already registered`)
      }
      if (tool.yields && !tool.idempotent) throw new Error(`tool "${tool.name}": a tool that yields must be idempotent`)
      entries.add(entry)
      return () => entries.delete(entry)
    }, `tools.register("${tool.name}")`)
  }

  /** Asks `approver` before each call, until the caller's fiber is disposed; through `agent.ctx`, before that agent's alone. */
  approve(approver: Approver): () => unknown {
    const { ctx, approvers } = this
    return ctx.effect(() => {
      const entry = { approver, ...ownedBy(ctx) }
      approvers.add(entry)
      return () => approvers.delete(entry)
    }, `tools.approve("${approver.name}")`)
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

  /**
   * Runs a tool once nobody objects, and calls `begin` right before. Rejects with what the tool throws, when there is none
   * of that name, and when the call is not approved of.
   */
  async execute(execution: ToolExecution, begin?: () => void): Promise<string> {
    const tool = this.get(execution.name, execution.agent)
    if (!tool) throw new Error(`tool "${execution.name}" is not registered`)
    execution.signal.throwIfAborted()
    await this.requireApproval(execution)
    execution.signal.throwIfAborted()
    begin?.()
    return tool.execute(execution)
  }

  /** The fibers that have a say in calls now: who reloads one of them wants the agents to park. */
  owners(): Set<Fiber> {
    return new Set([...this.entries, ...this.approvers].map(entry => entry.fiber))
  }

  private async requireApproval({ agent, ...execution }: ToolExecution): Promise<void> {
    for (const { approver, owner } of this.approvers) {
      if (owner && owner !== agent) continue
      const objection = await approver.object({ subject: agent, ...execution })
      if (objection === undefined) continue
      throw new Error(`tool "${execution.name}" is not approved by "${approver.name}": ${objection}`)
    }
  }

  private visible(agent: Agent | undefined): Map<string, Tool> {
    const tools = new Map<string, Tool>()
    for (const { tool, owner } of this.entries) if (!owner) tools.set(tool.name, tool)
    for (const { tool, owner } of this.entries) if (owner && owner === agent) tools.set(tool.name, tool)
    return tools
  }
}

function ownedBy(ctx: Context): Owned {
  return { owner: 'agent' in ctx ? ctx.agent : undefined, fiber: ctx.fiber }
}

export default ToolRuntime
