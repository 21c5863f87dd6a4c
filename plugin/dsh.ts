/**
 * `harness-hmr/dsh`: a provider that parks the agents of `@deepseek-ai/dsh-agent` at their next step before a reload that
 * concerns them, and brings back those that it has disposed. By their public interface alone; inert without a reload.
 */
import type { BeforeReload } from './reload/close.ts'
import { messageOf } from './guard/contain.ts'
import { deferred, type Deferred } from './dsh/deferred.ts'
import { Parked } from './dsh/parked.ts'
import { summary } from './dsh/summary.ts'
import type { Agent, AgentLoop, Agents, Context, Message, PreStep } from './dsh/types.ts'

/** Config of the provider. */
export interface DshOptions {
  /** Further services that agents call within their steps. */
  services?: string[]
}

/** Without these no agent is driven. */
const DRIVING = ['agents', 'agentLoop', 'sessions', 'sessionPersistence', 'settings']
/** What agents call within a step, and so whatever contributes to it. */
const CALLED = ['llm', 'tools', 'systemPrompt', 'attachments', 'codeRuntime', 'approval']

/** What Cordis calls the provider. */
export const name = 'harness-hmr/dsh'

/** Parks and brings back. It waits for no service, since it has to outlive them all. */
export function apply(ctx: Context, { services = [] }: DshOptions = {}): void {
  new Parking(ctx, [...CALLED, ...services]).listen()
}

class Parking {
  readonly #ctx: Context
  readonly #called: string[]
  readonly #parked = new Map<string, Parked>()
  /** Who waits at the gate, or is waited for. */
  readonly #arrivals = new Map<Agent, Deferred>()
  #gate: Deferred | undefined

  constructor(ctx: Context, called: string[]) {
    this.#ctx = ctx
    this.#called = called
  }

  listen(): void {
    const ctx = this.#ctx
    // First of all: what others do before a step is done when it is made.
    ctx.on('agent/pre-step', (step: PreStep, next: () => unknown) => this.#beforeStep(step, next), { prepend: true })
    ctx.on('agent/inbox/inserted', ({ agent }: { agent: Agent; message: Message }) => this.#of(agent)?.look())
    ctx.on('agent/disposed', ({ agent }: { agent: Agent }) => this.#disposed(agent))
    ctx.on('agent/session-start', ({ agent }: { agent: Agent }) => this.#started(agent))
    ctx.on('agent-loop/config-start-failed', (failed: { sessionId: string; error: unknown }) =>
      this.#parked.get(failed.sessionId)?.lose(failed.error)
    )
    ctx.on('harness-hmr/before-reload', (event: BeforeReload) => this.#beforeReload(event))
    ctx.on('harness-hmr/after-reload', () => this.#afterReload())
  }

  get #agents(): Agents | undefined {
    return this.#ctx.get('agents') as Agents | undefined
  }

  #of(agent: Agent): Parked | undefined {
    const parked = this.#parked.get(agent.id)
    return parked?.agent === agent ? parked : undefined
  }

  async #beforeReload({ services, uses, signal, waitsFor }: BeforeReload): Promise<void> {
    const isConcerned =
      services.some(service => DRIVING.includes(service) || this.#called.includes(service)) ||
      uses.some(service => this.#called.includes(service))
    // Those that other agents have created end with the step that waits for them.
    const agents = isConcerned ? (this.#agents?.roots() ?? []) : []
    if (agents.length === 0) return
    this.#gate = deferred()
    for (const agent of agents) this.#arrivals.set(agent, deferred())
    const over = new Promise<void>(resolve => signal.addEventListener('abort', () => resolve(), { once: true }))
    const arrived = agents.map(agent => Promise.race([agent.whenIdle(), this.#arrivals.get(agent)!.promise]))
    for (const [i, { id }] of agents.entries()) waitsFor(id, arrived[i]!, 'its step')
    await Promise.race([over, Promise.all(arrived)])
    for (const agent of agents) if (!this.#of(agent)) this.#parked.set(agent.id, new Parked(agent))
  }

  async #beforeStep({ agent, messages, step, signal }: PreStep, next: () => unknown): Promise<unknown> {
    const gate = this.#gate
    const arrival = this.#arrivals.get(agent)
    if (!gate || !arrival) return next()
    const parked = this.#of(agent) ?? new Parked(agent)
    this.#parked.set(agent.id, parked)
    parked.waits(messages, step)
    arrival.resolve()
    const aborted = deferred<never>()
    const abort = () => aborted.reject(signal.reason as Error)
    if (signal.aborted) abort()
    signal.addEventListener('abort', abort, { once: true })
    try {
      await Promise.race([gate.promise, aborted.promise])
    } finally {
      signal.removeEventListener('abort', abort)
    }
    return next()
  }

  /** Nothing here keeps it from now on. */
  #disposed(agent: Agent): void {
    const parked = this.#of(agent)
    if (parked) parked.agent = undefined
    this.#arrivals.delete(agent)
  }

  /** Who is back, by whose doing ever, is given what its predecessor has left. */
  #started(agent: Agent): void {
    const parked = this.#parked.get(agent.id)
    if (!parked || parked.agent) return
    this.#parked.delete(agent.id)
    parked.giveTo(agent)
    if (agent.session.events.length < parked.events.length) parked.isForgetful = true
  }

  async #afterReload(): Promise<void> {
    const all = [...this.#parked.values()]
    const gone = all.filter(({ agent }) => !agent)
    for (const { id, agent } of all) if (agent) this.#parked.delete(id)
    this.#gate?.resolve()
    this.#gate = undefined
    this.#arrivals.clear()
    if (all.length === 0) return
    for (const parked of gone) this.#revive(parked)
    void this.#tell(all, gone)
  }

  #revive(parked: Parked): void {
    const loop = this.#ctx.get('agentLoop') as AgentLoop | undefined
    const rows = loop?.config.agents ?? []
    // Its loop does that by itself.
    if (rows.some(({ sessionId, resumeSessionId }) => (resumeSessionId || sessionId) === parked.id)) return
    const row = rows.find(({ id, sessionId }) => !sessionId && parked.id.startsWith(`${id}-session-`))
    if (row) parked.lose(new Error(`its row "${row.id}" has no \`sessionId\`, so that another agent took its place`))
    else void this.#bringBack(parked)
  }

  async #bringBack(parked: Parked): Promise<void> {
    const agents = this.#agents
    const isOnDisk = this.#ctx.get('sessionPersistence') !== undefined
    try {
      if (!agents || !this.#ctx.get('agentLoop')) throw new Error('nobody drives agents')
      if (agents.get(parked.id)) return
      await (isOnDisk ? agents.resume(parked.revival(true)) : agents.create(parked.revival(false)))
    } catch (error) {
      parked.lose(error)
    }
  }

  /** Says, when every one is back or lost, what became of them. */
  async #tell(all: Parked[], gone: Parked[]): Promise<void> {
    const ends = await Promise.allSettled(gone.map(({ back }) => back))
    const lost = gone.flatMap((parked, i) => {
      const end = ends[i]!
      if (end.status === 'fulfilled') return []
      this.#parked.delete(parked.id)
      return [`${parked.id}: ${messageOf(end.reason)}`]
    })
    const notes = this.#ctx.get('harnessHmr') as { note?(message: string): void } | undefined
    notes?.note?.(summary(all, gone, lost))
  }
}
