import { Service, type Context } from 'cordis'
import { closeOnUnload } from '../unload.ts'
import { tell } from '../listeners.ts'
import { Initiators } from './agents/initiators.ts'
import type { ParentRequest, Session } from './sessions.ts'

export type { ParentRequest } from './sessions.ts'

/** A prompt that is on record. */
export interface PromptReceipt {
  promptId: string
  /**
   * Waits for the answer, across reloads; rejects when the turn failed or was cancelled, and when `signal` aborts. Within a
   * drive or another boundary it rejects when that is to end first: what tears it down waits for it.
   */
  answer(signal?: AbortSignal): Promise<string>
}

/** What a prompt may say about itself. */
export interface PromptOptions {
  /** Unique in its session: a prompt with an id that is already on record is not queued again. */
  promptId?: string
  /** The request of a parent agent that this prompt serves. */
  from?: ParentRequest
}

/** One live agent. After a reload of the loop another object carries the same id and session. */
export interface Agent {
  readonly id: string
  readonly session: Session
  /** The agent's own registration scope: what is registered through it belongs to this agent and goes with it. */
  readonly ctx: Context
  /** The directory that its tools work in. */
  readonly cwd: string
  /** The tool call that asked for it. */
  readonly parent: ParentRequest | undefined
  /** No turn is open and no prompt is queued. */
  readonly idle: boolean
  /** Puts a prompt on record; prompts are answered in order, each once. */
  prompt(text: string, options?: PromptOptions): PromptReceipt
  /** Waits for the answer to a prompt on record, as {@link PromptReceipt.answer}. */
  answer(promptId: string, signal?: AbortSignal): Promise<string>
  /** Gives up a prompt, by default the one being answered; false when there is none. */
  cancel(promptId?: string): boolean
  /** Ends the agent for good: it is not resumed. */
  end(): Promise<void>
}

/** How an agent is created. */
export interface CreateOptions {
  id?: string
  /** The open tool call that asks for this agent: the agent ends with it. */
  parent?: ParentRequest
  /** The directory that its tools work in, for good; that of the process by default. */
  cwd?: string
  /** Runs before the agent is published, under the identity of the creator; `ctx.agent` is the new agent. */
  setup?: (ctx: Context) => void | Promise<void>
}

/** Which agent is resumed from its session. */
export interface ResumeOptions {
  id: string
  setup?: CreateOptions['setup']
}

/** Creates agents for the registry; `owner` is the context that asked, whose unload ends the agent. */
export interface AgentFactory {
  createAgent(owner: Context, options: CreateOptions): Promise<Agent>
  resume(owner: Context, options: ResumeOptions): Promise<Agent>
}

declare module 'cordis' {
  interface Context {
    agents: AgentRegistry
    /** The agent whose registration scope this context is in; never "the running one". */
    agent: Agent | undefined
  }
  interface Events {
    'agent/created'(event: { agent: Agent }): void
    'agent/disposed'(event: { agent: Agent }): void
  }
}

/**
 * The live agents, and which of them initiated an asynchronous operation (`ctx.agents`).
 * It is not derived from `Service`, whose constructor provides the service in an effect of its own: that one would be
 * disposed at the same time as the drain, and the order is the point here.
 */
export class AgentRegistry {
  readonly [Service.tracker] = { property: 'ctx', noShadow: true }
  private readonly ctx: Context
  private readonly initiators = new Initiators<Agent>()
  private readonly live = new Map<string, Agent>()
  private factory: AgentFactory | undefined

  constructor(ctx: Context) {
    this.ctx = ctx
    const { initiators } = this
    const provide = () => ctx.reflect.provide('agents', this)
    ctx.accessor('agent', { get: () => undefined })
    // Disposed from the last to the first, each awaited: close, remove the service (dependents drain), drain, disable.
    ctx.effect(function* () {
      yield* closeOnUnload(ctx, () => initiators.close())
      yield () => initiators.dispose()
      yield provide()
      yield () => initiators.close()
    }, 'agents.lifecycle()')
  }

  /**
   * The agent that initiated the inherited asynchronous chain, if any.
   * @throws after disposal.
   */
  currentInitiator(): Agent | undefined {
    return this.initiators.current()
  }

  /**
   * The agent that initiated the inherited asynchronous chain.
   * @throws when there is none, and after disposal.
   */
  requireInitiator(): Agent {
    return this.initiators.require()
  }

  /** Aborts when the registry closes, for those who wait in a boundary for what comes only after its drain; none outside. */
  get closing(): AbortSignal | undefined {
    return this.initiators.closing
  }

  /** `"open"`, `"closed"` while boundaries are refused and those that are open drain, `"disposed"` after. */
  get initiatorState(): Initiators<Agent>['state'] {
    return this.initiators.state
  }

  /**
   * Runs `operation` with `agent` as its initiator and returns exactly what it returns; a Promise keeps the boundary open.
   * @throws while the registry closes, and after.
   */
  withInitiator<R>(agent: Agent, operation: () => R): R {
    return this.initiators.run(agent, operation)
  }

  /** Runs `operation` without an initiator, for shared timers, pools and queues that must not inherit one. */
  withoutInitiator<R>(operation: () => R): R {
    return this.initiators.run(undefined, operation)
  }

  /**
   * Lists a live agent until the caller's fiber, or the returned effect, is disposed.
   * @throws when an agent of that id is listed, and when its session has another id.
   */
  register(agent: Agent): () => unknown {
    const { ctx, live } = this
    return ctx.effect(() => {
      if (agent.id !== agent.session.id) throw new Error(`agent "${agent.id}": its session is "${agent.session.id}"`)
      if (live.has(agent.id)) throw new Error(`agent "${agent.id}" is already registered`)
      live.set(agent.id, agent)
      tell(ctx, agent, 'agent/created', { agent }, `agent "${agent.id}"`)
      return () => {
        if (live.get(agent.id) !== agent) return
        live.delete(agent.id)
        tell(ctx, agent, 'agent/disposed', { agent }, `agent "${agent.id}"`)
      }
    }, `agents.register("${agent.id}")`)
  }

  /** The live agent of that id, if any. */
  get(id: string): Agent | undefined {
    return this.live.get(id)
  }

  /** The live agents in the order of their registration. */
  list(): Agent[] {
    return [...this.live.values()]
  }

  /**
   * Makes `factory` the one that creates agents, until the caller's fiber, or the returned effect, is disposed.
   * @throws when there is one already.
   */
  setFactory(factory: AgentFactory): () => unknown {
    return this.ctx.effect(() => {
      if (this.factory) throw new Error('an agent factory is already registered')
      this.factory = factory
      return () => (this.factory = undefined)
    }, 'agents.setFactory()')
  }

  /**
   * Creates an agent and its session; rejects when no loop has registered a factory. The unload of the caller ends the agent,
   * whose session can be resumed.
   */
  async create(options: CreateOptions = {}): Promise<Agent> {
    return this.requireFactory().createAgent(this.ctx, options)
  }

  /** The live agent of a session on record, resumed when it is not live yet. */
  async resume(options: ResumeOptions): Promise<Agent> {
    return this.requireFactory().resume(this.ctx, options)
  }

  private requireFactory(): AgentFactory {
    if (!this.factory) throw new Error('no agent factory is registered: is the agent loop active?')
    return this.factory
  }
}

export default AgentRegistry
