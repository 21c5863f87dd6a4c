import { randomUUID } from 'node:crypto'
import { Service, type Context, type Fiber } from 'cordis'
import { BoundaryScope } from 'harness-hmr/scope'
import { LoopAgent } from './agent-loop/agent.ts'
import { endChildrenOf, isRetired, isWanted } from './agent-loop/children.ts'
import { Driver } from './agent-loop/driver.ts'
import { contributors, dependsOn } from './agent-loop/fibers.ts'
import { Progress } from './agent-loop/progress.ts'
import { runLoop, type AgentDelta, type Loop } from './agent-loop/run-loop.ts'
import type { BeforeReload } from '../events.ts'
import type { Agent, AgentFactory, CreateOptions, ResumeOptions } from './agents.ts'
import type { Session } from './sessions.ts'

declare module 'cordis' {
  interface Context {
    agentLoop: AgentLoop
  }
  interface Events {
    /** An agent says something; it is on record only when its step has ended. */
    'agent/delta'(event: AgentDelta & { agent: Agent }): void
    /** Awaited before a step of an agent; what waits long has to give up when `signal` aborts. */
    'agent/step'(event: { agent: Agent; signal: AbortSignal }): void | Promise<void>
    /** A driver has started, or goes on. */
    'agent/driving'(event: { agent: Agent }): void
    /** A driver has stopped at a step boundary, or was stopped. */
    'agent/parked'(event: { agent: Agent }): void
  }
}

/** `FiberState.UNLOADING`: the enum is ambient and const, so that its members cannot be imported. */
const isUnloading = ({ state }: { state: number }): boolean => state === 5

/** What is called within a step. */
const CALLED = ['tools', 'llm', 'prompt']

/** Creates, resumes and drives agents (`ctx.agentLoop`); every agent on record that has not ended is driven. */
export class AgentLoop implements AgentFactory {
  static inject = ['agents', 'sessions', 'tools', 'prompt', 'llm']
  private readonly ctx: Context
  private readonly services: Pick<Context, 'agents' | 'sessions' | 'tools' | 'prompt' | 'llm'>
  private readonly loop: Loop
  private readonly drivers = new Map<Agent, Driver>()
  /** Which drivers an operation belongs to: one that ends its own loop, or was asked to by a child, is not waited for. */
  private readonly driving = new BoundaryScope<Driver>({ name: 'agent driver scope', label: driver => driver.agent.id })
  private readonly arriving = new Map<string, Promise<Agent>>()
  private parked = false
  private stopped = false

  constructor(ctx: Context) {
    this.ctx = ctx
    // Kept: what is read from a context after one of these services has gone throws.
    const { agents, sessions, tools, prompt, llm } = ctx
    this.services = { agents, sessions, tools, prompt, llm }
    this.loop = {
      agents,
      tools,
      prompt,
      llm,
      driverOf: agent => this.drivers.get(agent)!,
      emit: (agent, delta) => this.tell(agent, () => ctx.emit(agent, 'agent/delta', { agent, ...delta })),
      beforeStep: (agent, signal) => ctx.parallel(agent, 'agent/step', { agent, signal })
    }
    ctx.on('harness-hmr/before-reload', event => this.beforeReload(event))
    ctx.on('harness-hmr/after-reload', () => this.go())
    ctx.on('session/event', ({ sessionId }) => endChildrenOf(sessionId, this.drivers.keys(), sessions))
    const { driving } = this
    const install = () => [ctx.reflect.provide('agentLoop', this), agents.setFactory(this)] as const
    // At the very start of the unload: nothing may arrive between that and the end of what has arrived.
    ctx.on('internal/status', fiber => {
      if (fiber === ctx.fiber && isUnloading(fiber)) this.stop()
    })
    ctx.effect(function* () {
      yield () => driving.dispose()
      yield* install()
    }, 'agentLoop.lifecycle()')
  }

  /** Resumes the agents on record, once those who offer tools to them are there. */
  async [Service.init](): Promise<void> {
    const { sessions } = this.services
    await contributors(this.ctx)
    for (const id of sessions.ids()) {
      try {
        if (!isRetired(sessions, id)) await this.resume(this.ctx, { id })
      } catch (error) {
        this.ctx.logger.error(`agent "${id}" is not resumed: ${String(error)}`)
      }
    }
  }

  async createAgent(_owner: Context, { id = randomUUID(), parent, cwd, setup }: CreateOptions): Promise<Agent> {
    const { sessions } = this.services
    const session = sessions.create(id)
    return this.arrive(session, setup, () => {
      if (parent && !isWanted(sessions, parent)) throw new Error(`agent "${id}": the call that asks for it is not open`)
      session.append('created', { agentId: id, ...(parent && { parent }), ...(cwd && { cwd }) })
    })
  }

  async resume(_owner: Context, { id, setup }: ResumeOptions): Promise<Agent> {
    const { agents, sessions } = this.services
    const known = agents.get(id) ?? this.arriving.get(id)
    if (known) return known
    if (isRetired(sessions, id)) throw new Error(`agent "${id}" has ended`)
    return this.arrive(sessions.open(id), setup, () => {})
  }

  /** Stops every driver at its next step boundary, and what still runs when `signal` aborts. Resolves when all have stopped. */
  async park(signal?: AbortSignal): Promise<void> {
    this.parked = true
    const own = this.driving.current()
    const others = [...this.drivers.values()].filter(driver => driver !== own)
    const cut = () => this.drivers.forEach(driver => driver.cut())
    for (const driver of this.drivers.values()) driver.park()
    if (signal?.aborted) cut()
    signal?.addEventListener('abort', cut)
    await Promise.all(others.map(driver => driver.done))
    signal?.removeEventListener('abort', cut)
  }

  /** Lets the parked drivers go on. */
  go(): void {
    this.parked = false
    for (const driver of this.drivers.values()) driver.start()
  }

  private async beforeReload({ services, uses, signal }: BeforeReload): Promise<void> {
    const concerned = [this.ctx.fiber, ...this.services.tools.owners()]
    // Who offers a tool, a model or a part of the prompt takes no service away, and a step would miss it all the same.
    const isOffering = uses.some(name => CALLED.includes(name))
    if (isOffering || concerned.some(fiber => dependsOn(fiber, services))) await this.park(signal)
  }

  private stop(): void {
    this.stopped = true
    for (const driver of this.drivers.values()) driver.stop()
  }

  private arrive(session: Session, setup: CreateOptions['setup'], record: () => void): Promise<Agent> {
    const arrival = this.publish(session, setup, record).finally(() => this.arriving.delete(session.id))
    this.arriving.set(session.id, arrival)
    return arrival
  }

  /** Sets the agent up in a scope of its own, puts it on record, and drives it. */
  private async publish(session: Session, setup: CreateOptions['setup'], record: () => void): Promise<Agent> {
    const agent = new LoopAgent(session)
    const scope = this.ctx.extend({ agent }).plugin({ name: `agent ${agent.id}`, apply() {} })
    try {
      agent.ctx = (await scope).ctx
      await setup?.(agent.ctx)
      if (this.stopped) throw new Error('agent loop is stopped')
      record()
    } catch (error) {
      session.close()
      await scope.dispose()
      throw error
    }
    agent.driver = new Driver(agent, new Progress(session), driver => this.drive(driver))
    agent.finish = this.own(agent, scope)
    if (!this.parked) agent.driver.start()
    return agent
  }

  /** The agent's life as one effect, which ends from below: unlisted, stopped, its session closed, its scope gone. */
  private own(agent: LoopAgent, scope: Fiber): () => unknown {
    const { ctx, driving, drivers } = this
    const { agents, sessions } = this.services
    const { driver, session } = agent
    const isStopped = () => this.stopped
    return ctx.effect(function* () {
      drivers.set(agent, driver)
      yield sessions.retain()
      yield scope.dispose
      yield () => session.close()
      yield async () => {
        driver.stop()
        if (isStopped()) await Promise.race([driver.done, driving.dispose()])
        else if (driving.current() !== driver) await driver.done
        drivers.delete(agent)
      }
      yield agents.register(agent)
    }, `agentLoop.own("${agent.id}")`)
  }

  /** One drive is one boundary, of the agent's and of the driver's. */
  private drive(driver: Driver): Promise<void> {
    const { agent } = driver
    const run = async () => {
      this.tell(agent, () => this.ctx.emit(agent, 'agent/driving', { agent }))
      try {
        await runLoop(this.loop)
      } catch (error) {
        // The session of a driver that nobody could wait for is closed under it.
        if (!agent.session.closed) this.ctx.logger.error(`agent "${agent.id}" has stopped: ${String(error)}`)
        throw error
      } finally {
        this.tell(agent, () => this.ctx.emit(agent, 'agent/parked', { agent }))
      }
    }
    return this.driving.run(driver, () => this.services.agents.withInitiator(agent, run))
  }

  /** A listener that fails is not the agent's problem. */
  private tell(agent: Agent, emit: () => void): void {
    try {
      emit()
    } catch (error) {
      this.ctx.logger.warn(`agent "${agent.id}": a listener failed: ${String(error)}`)
    }
  }
}

export default AgentLoop
