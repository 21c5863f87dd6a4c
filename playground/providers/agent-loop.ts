import { randomUUID } from 'node:crypto'
import { Service, type Context, type Events, type Fiber } from 'cordis'
import { BoundaryScope } from 'harness-hmr/scope'
import { LoopAgent } from './agent-loop/agent.ts'
import { endChildrenOf, isRetired, isWanted } from './agent-loop/children.ts'
import { Driver, type DriverHost } from './agent-loop/driver.ts'
import { Arrivals, unlessAborted } from './agent-loop/arrivals.ts'
import { contributors, dependsOn } from './agent-loop/fibers.ts'
import { Progress } from './agent-loop/progress.ts'
import type { AgentDelta, Loop } from './agent-loop/loop.ts'
import { runLoop } from './agent-loop/run-loop.ts'
import type { BeforeReload } from '../events.ts'
import { callAll, tell, textOf } from '../listeners.ts'
import { closeOnUnload, isUnloading, isWithin, letGo } from '../unload.ts'
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
  private readonly arrivals = new Arrivals()
  private readonly host: DriverHost = {
    drive: driver => this.drive(driver),
    tell: ({ agent }, is) => this.tell(`agent/${is}`, { agent })
  }
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
      emit: (agent, delta) => this.tell('agent/delta', { agent, ...delta }),
      beforeStep: (agent, signal) => this.beforeStep(agent, signal)
    }
    ctx.on('harness-hmr/before-reload', event => this.beforeReload(event))
    ctx.on('harness-hmr/after-reload', () => this.go())
    ctx.on('session/event', ({ sessionId }) => endChildrenOf(sessionId, this.drivers.keys(), sessions))
    const { driving } = this
    const install = () => [ctx.reflect.provide('agentLoop', this), agents.setFactory(this)] as const
    // At the very start of the unload: nothing may arrive between that and the end of what has arrived.
    const stop = () => this.stop()
    ctx.effect(function* () {
      yield* closeOnUnload(ctx, stop)
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

  async createAgent(owner: Context, { id = randomUUID(), parent, cwd, setup }: CreateOptions): Promise<Agent> {
    const { sessions } = this.services
    const session = sessions.create(id)
    return this.arrive(owner, session, setup, () => {
      if (parent && !isWanted(sessions, parent)) throw new Error(`agent "${id}": the call that asks for it is not open`)
      session.append('created', { agentId: id, ...(parent && { parent }), ...(cwd && { cwd }) })
    })
  }

  async resume(owner: Context, { id, setup }: ResumeOptions): Promise<Agent> {
    const { agents, sessions } = this.services
    const known = agents.get(id) ?? this.arrivals.get(id)
    if (known) return known
    if (isRetired(sessions, id)) throw new Error(`agent "${id}" has ended`)
    return this.arrive(owner, sessions.open(id), setup, () => {})
  }

  /** Stops every driver at its next step boundary, and what still runs when `signal` aborts. Resolves when all have stopped. */
  async park(signal?: AbortSignal, waitsFor?: BeforeReload['waitsFor']): Promise<void> {
    this.parked = true
    const own = this.currentDriver()
    const others = [...this.drivers.values()].filter(driver => driver !== own)
    const cut = () => this.drivers.forEach(driver => driver.cut())
    for (const driver of this.drivers.values()) driver.park()
    for (const { agent, done, step } of others) waitsFor?.(agent.id, done, step)
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

  private async beforeReload({ services, uses, signal, waitsFor }: BeforeReload): Promise<void> {
    const concerned = [this.ctx.fiber, ...this.services.tools.owners()]
    // Who offers a tool, a model or a part of the prompt takes no service away, and a step would miss it all the same.
    const isOffering = uses.some(name => CALLED.includes(name))
    if (isOffering || concerned.some(fiber => dependsOn(fiber, services))) await this.park(signal, waitsFor)
  }

  private stop(): void {
    this.stopped = true
    this.arrivals.giveUp(new Error('agent loop is stopped'))
    for (const driver of this.drivers.values()) driver.stop()
    letGo(this.driving)
  }

  /** Sets the agent up in a scope of its own, puts it on record, and drives it. */
  private arrive(owner: Context, session: Session, setup: CreateOptions['setup'], record: () => void): Promise<Agent> {
    const agent = new LoopAgent(session, () => this.limit())
    return this.arrivals.begin(agent.id, async over => {
      let scope: Fiber | undefined
      try {
        agent.finish = () => over.abort(new Error(`agent "${agent.id}": whoever asked for it has gone`))
        agent.leave = this.follow(owner, agent)
        scope = this.ctx.extend({ agent }).plugin({ name: `agent ${agent.id}`, apply() {} }) as Fiber
        agent.ctx = (await unlessAborted(over.signal, scope.await())).ctx
        await unlessAborted(over.signal, Promise.resolve(setup?.(agent.ctx)))
        if (this.stopped) throw new Error('agent loop is stopped')
        record()
      } catch (error) {
        session.close()
        agent.leave()
        await scope?.dispose()
        throw error
      }
      agent.driver = new Driver(agent, new Progress(session), this.host)
      agent.finish = this.own(agent, scope)
      if (!this.parked) agent.driver.start()
      return agent
    })
  }

  /** The unload of whoever asked for an agent ends it; one that the loop itself ends with is heard of anyway. */
  private follow(owner: Context, agent: LoopAgent): () => unknown {
    if (isWithin(this.ctx.fiber, owner.fiber)) return () => {}
    if (isUnloading(owner.fiber)) throw new Error(`agent "${agent.id}": whoever asks for it is unloading`)
    return owner.effect(() => () => agent.finish(), `agents.create("${agent.id}")`)
  }

  /** The agent's life as one effect, which ends from below: unlisted, stopped, its session closed, its scope gone. */
  private own(agent: LoopAgent, scope: Fiber): () => unknown {
    const { ctx, driving, drivers } = this
    const { agents, sessions } = this.services
    const { driver, session, leave } = agent
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
      yield () => void leave()
      yield agents.register(agent)
    }, `agentLoop.own("${agent.id}")`)
  }

  /** One drive is one boundary, of the agent's and of the driver's. */
  private async drive(driver: Driver): Promise<void> {
    const { agent } = driver
    const run = async () => {
      try {
        await runLoop(this.loop)
      } catch (error) {
        // The session of a driver that nobody could wait for is closed under it.
        if (!agent.session.closed) this.ctx.logger.error(`agent "${agent.id}" has stopped: ${textOf(error)}`)
        throw error
      }
    }
    return this.driving.run(driver, () => this.services.agents.withInitiator(agent, run))
  }

  /**
   * When those who wait for an answer have to give up: whoever waits in a drive, when it is stopped for good; in any other
   * boundary, when the registry closes. The answer comes only after, and the teardown waits for them.
   */
  private limit(): AbortSignal | undefined {
    return this.currentDriver()?.stopped ?? this.services.agents.closing
  }

  private currentDriver(): Driver | undefined {
    return this.driving.state === 'disposed' ? undefined : this.driving.current()
  }

  private async beforeStep(agent: Agent, signal: AbortSignal): Promise<void> {
    const failures: string[] = []
    await callAll(this.ctx, agent, 'agent/step', { agent, signal }, (owner, error) => {
      // Those that give up when the signal aborts do what they have to.
      if (!signal.aborted) failures.push(`provider "${owner}": its listener of agent/step failed: ${textOf(error)}`)
    })
    for (const failure of failures) this.ctx.logger.warn(`agent "${agent.id}": ${failure}`)
    signal.throwIfAborted()
    if (failures.length > 0) throw new Error(failures.join('; '))
  }

  private tell<K extends 'agent/delta' | 'agent/driving' | 'agent/parked'>(
    name: K,
    event: Parameters<Events[K]>[0]
  ): void {
    tell(this.ctx, event.agent, name, event, `agent "${event.agent.id}"`)
  }
}

export default AgentLoop
