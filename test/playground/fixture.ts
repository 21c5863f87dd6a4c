import { Context, type Events, type Fiber, type Plugin } from 'cordis'
import { expect, onTestFinished } from 'vitest'
import { AgentExecutionProvider } from '../../playground/providers/agent-execution.ts'
import { AgentLoop } from '../../playground/providers/agent-loop.ts'
import { AgentRegistry } from '../../playground/providers/agents.ts'
import { BasicTools } from '../../playground/providers/basic-tools.ts'
import { JobTools } from '../../playground/extras/job-tools.ts'
import { JobPool } from '../../playground/extras/jobs.ts'
import { SimulatedModel } from '../../playground/providers/llm.ts'
import { PromptAssembly } from '../../playground/providers/prompt.ts'
import { SessionLog } from '../../playground/providers/session-log.ts'
import { SessionStore, type SessionEvent } from '../../playground/providers/sessions.ts'
import { ToolRuntime, type Tool } from '../../playground/providers/tools.ts'
import { HostTransport } from '../../playground/providers/transport.ts'
import { Fibers, type Instance, isActive } from '../../plugin/cordis/fibers.ts'
import type { ReloadReport } from '../../plugin/index.ts'
import { changeOf, type Reaching, type Staged } from '../../plugin/reload/change.ts'
import { close } from '../../plugin/reload/close.ts'
import { disable } from '../../plugin/reload/disable.ts'
import { drain } from '../../plugin/reload/drain.ts'
import { install } from '../../plugin/reload/install.ts'
import type { Cause } from '../../plugin/reload/plan.ts'
import { finish, openReport } from '../../plugin/reload/report.ts'
import type { Running } from '../../plugin/reload/running.ts'
import { Steps } from '../../plugin/reload/steps.ts'
import { promptly } from '../promptly.ts'

const providers = {
  'session-log': SessionLog,
  agents: AgentRegistry,
  sessions: SessionStore,
  tools: ToolRuntime,
  prompt: PromptAssembly,
  llm: SimulatedModel,
  'basic-tools': BasicTools,
  jobs: JobPool,
  'job-tools': JobTools,
  'agent-execution': AgentExecutionProvider,
  transport: HostTransport,
  'agent-loop': AgentLoop
} as const

export type ProviderName = keyof typeof providers
export const providerNames = Object.keys(providers) as ProviderName[]

/** What `harness-hmr/after-reload` carries; nobody here reads it. */
export const reloaded = {} as ReloadReport

/** What the tests wait with: nothing here sleeps. */
export class Harness {
  readonly root = new Context()
  readonly problems: string[] = []
  private readonly configs: Partial<Record<ProviderName, unknown>>
  private readonly fibers = new Map<ProviderName, Fiber>()
  /** As the plugin sees the same fibers; it notes what is applied from now on. */
  private readonly engineFibers = new Fibers(this.root as unknown as Fibers['root'])

  constructor(configs: Partial<Record<ProviderName, unknown>>) {
    this.configs = { 'session-log': { memory: new Map() }, ...configs }
    this.root.logger.exporter({
      levels: { default: 1 },
      export: message => this.problems.push(`${message.type} ${message.args.map(String).join(' ')}`)
    })
  }

  async install(name: ProviderName): Promise<void> {
    const fiber = this.root.plugin(providers[name] as Plugin, this.configs[name])
    this.fibers.set(name, fiber)
    await fiber
  }

  fiber(name: ProviderName): Fiber {
    return this.fibers.get(name)!.ctx.fiber
  }

  async dispose(name: ProviderName): Promise<void> {
    await promptly(this.fiber(name).dispose(), `disposal of ${name}`)
  }

  /** Replaces a provider by the steps of a real reload, or without a word when `announced` is false. */
  async reload(name: ProviderName, { announced = true, grace = 2000 } = {}): Promise<void> {
    if (announced) await this.engine(name, grace)
    else {
      await this.dispose(name)
      await this.install(name)
    }
    await this.settled()
  }

  /** The plugin's own steps on the fibers that run; what is staged is the provider as it is. */
  private async engine(name: ProviderName, grace: number): Promise<void> {
    const fiber = this.fiber(name) as unknown as Instance['fiber']
    const plugin: unknown = providers[name]
    const instance: Instance = { module: name, fiber, plugin, exported: 'default', entry: undefined }
    const dependents = this.engineFibers.dependents([fiber])
    const active = new Set([fiber, ...dependents].filter(isActive))
    const staged = { successors: [{ instance, plugin }], commit: () => {}, accept: async () => [] }
    const going = { targets: [], instances: [instance], dependents, scopes: [], active }
    // These modules are vitest's: there is no host that evaluates them, and no ledger of what they create.
    const change = changeOf({ modules: new Set() } as unknown as Reaching, going, staged as unknown as Staged)
    const running = {
      fibers: this.engineFibers,
      host: { hot: { dispose: async () => [] } },
      rows: { areThere: () => false },
      providers: { all: () => [], titleOf: () => undefined },
      limits: { grace, warnAfter: 1000, deadline: 10_000 },
      stopped: new AbortController().signal,
      halted: new AbortController().signal,
      onSlow: () => {},
      onStep: () => {}
    } as unknown as Running
    const cause: Cause = { files: [name], modules: [], frozen: [], retries: false }
    const steps = new Steps(openReport(1, cause), running.onStep)
    await promptly(close(change, running, steps), `${name} to close`, grace + 5000)
    await drain(change, running, steps)
    await disable(change, running, steps)
    await install(change, running, steps)
    steps.report.outcome = 'reloaded'
    const { failures } = await finish(steps, cause, running, {}, () => [])
    expect(failures).toEqual([])
  }

  /** Every provider has come back as far as it can. */
  async settled(): Promise<void> {
    for (const fiber of this.fibers.values()) await promptly(fiber.await(), 'providers settle')
  }

  /** Offers a tool for as long as the harness has tools. */
  async offer(tool: Partial<Tool> & Pick<Tool, 'name' | 'execute'>): Promise<void> {
    await this.root.plugin({
      name: `tool ${tool.name}`,
      inject: ['tools'],
      apply: ctx => void ctx.tools.register({ description: tool.name, parameters: {}, ...tool })
    })
  }

  /** Creates an agent and asks it something. */
  async ask(id: string, text: string): Promise<string> {
    const { agents } = this.root
    const agent = agents.get(id) ?? (await agents.create({ id }))
    return promptly(agent.prompt(text).answer(), `answer of ${id}`)
  }

  /** The next event of that name for which `matches` holds. */
  event<K extends keyof Events & string>(name: K, matches: (event: any) => boolean = () => true): Promise<any> {
    const seen = new Promise(resolve => {
      const off = this.root.on(name, ((event: unknown) => {
        if (!matches(event)) return
        off()
        resolve(event)
      }) as Events[K])
    })
    return promptly(seen, name)
  }

  /** The next event of that type on the record of a session. */
  recorded(
    sessionId: string,
    type: SessionEvent['type'],
    matches: (event: any) => boolean = () => true
  ): Promise<void> {
    return this.event(
      'session/event',
      update => update.sessionId === sessionId && update.event.type === type && matches(update.event)
    )
  }

  record(id: string): readonly SessionEvent[] {
    return this.root.sessions.read(id)
  }
}

/** A harness of all providers (except those in `without`), disposed with the test, which must have logged no problem. */
export async function boot(
  configs: Partial<Record<ProviderName, unknown>> = {},
  without: ProviderName[] = []
): Promise<Harness> {
  const harness = new Harness(configs)
  onTestFinished(async () => {
    await promptly(harness.root.fiber.dispose(), 'end of the harness')
  })
  for (const name of providerNames) if (!without.includes(name)) await harness.install(name)
  return harness
}

/** Sequence without a gap, each prompt ended once, each call with one result unless its turn was given up. */
export function expectSound(events: readonly SessionEvent[]): void {
  expect(events.map(event => event.seq)).toEqual(events.map((_, index) => index))
  const ids = (...types: SessionEvent['type'][]) =>
    events.filter(event => types.includes(event.type)).map(event => (event.data as { promptId: string }).promptId)
  const cancelled = new Set(ids('cancelled'))
  const kept = (promptIds: string[]) => promptIds.filter(promptId => !cancelled.has(promptId))
  expect(ids('answer', 'failed', 'cancelled').toSorted()).toEqual(ids('prompt').toSorted())
  expect(ids('answer', 'failed')).toEqual(kept(ids('prompt')))
  expect(kept(ids('turn'))).toEqual(kept(ids('prompt')))
  const calls = events.flatMap(event =>
    event.type === 'step' && !cancelled.has(event.data.promptId) ? event.data.calls : []
  )
  const results = events.flatMap(event => (event.type === 'result' ? [event.data.callId] : []))
  expect(new Set(results).size).toBe(results.length)
  expect(results).toEqual(expect.arrayContaining(calls.map(call => call.callId)))
}

/** What was answered, in order. */
export function answers(events: readonly SessionEvent[]): string[] {
  return events.flatMap(event => (event.type === 'answer' ? [event.data.text] : []))
}
