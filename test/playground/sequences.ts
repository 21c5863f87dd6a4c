/** Agents that tear down what they run on, and what must hold after. */
import type { Context, Events } from 'cordis'
import { expect } from 'vitest'
import type { Agent } from '../../playground/providers/agents.ts'
import type { SessionEvent } from '../../playground/providers/sessions.ts'
import { promptly, turn } from '../promptly.ts'
import { Harness, providerNames, type ProviderName } from './fixture.ts'
import { type Action, ids } from './sequence-actions.ts'

type Torn = ProviderName | 'root'

/** One run: three agents that tear down what they run on. */
export class Sequence {
  readonly memory = new Map<string, string[]>()
  harness!: Harness
  readonly wrong: string[] = []
  readonly problems: string[] = []
  private readonly ended: Promise<unknown>[] = []
  private readonly listeners: (() => unknown)[] = []
  private readonly hired: Awaited<ReturnType<Context['plugin']>>[] = []
  /** One teardown at a time, whoever starts it. */
  private teardown: Promise<unknown> | undefined
  private ending = false

  /** Starts a harness on the sessions that are there. */
  async start(): Promise<void> {
    this.harness = new Harness({ 'session-log': { memory: this.memory } })
    for (const name of providerNames) if (name !== 'agent-loop') await this.harness.install(name)
    await this.offer()
    await this.harness.install('agent-loop')
    const { agents, sessions } = this.harness.root
    for (const id of ids) if (sessions.read(id).length === 0) await agents.create({ id })
  }

  private async offer(): Promise<void> {
    const { harness } = this
    const parameters = (...names: string[]) =>
      Object.fromEntries(names.map(name => [name, { type: 'string' as const, description: name }]))
    await harness.offer({
      name: 'hang',
      execute: () =>
        turn()
          .then(turn)
          .then(() => 'hung')
    })
    await harness.offer({
      name: 'dismiss',
      execute: async () => (await harness.root.agents.get('cy')?.end(), 'dismissed')
    })
    // It waits for another agent, and does not care for its signal.
    await harness.offer({
      name: 'ask',
      parameters: parameters('who', 'text'),
      execute: async ({ agent, args }) => {
        const other = harness.root.agents.get(String(args.who))
        // Nor does a child ask whoever waits for it.
        if (!other || agent!.id.startsWith(other.id)) return 'nobody to ask'
        return other.prompt(String(args.text)).answer()
      }
    })
    for (const kind of ['saw', 'restart'] as const) {
      await harness.offer({
        name: kind,
        parameters: parameters('name'),
        execute: ({ args }) => this.tearDown(String(args.name) as Torn, kind)
      })
    }
  }

  /** In the chain of the agent that asks: what is installed again is installed in it, too. */
  private async tearDown(name: Torn, kind: 'saw' | 'restart' | 'reload'): Promise<string> {
    // The root goes once: a harness that takes its sessions up has to come to their end.
    if (this.teardown || (name === 'root' && !this.ending)) return 'not now'
    const { harness } = this
    const fiber = name === 'root' ? harness.root.fiber : harness.fiber(name)
    const work = async () => {
      if (kind === 'restart') await fiber.restart()
      else await fiber.dispose()
      if (kind !== 'restart' && name !== 'root') await harness.install(name)
    }
    this.teardown = promptly(work(), `${kind} ${name}`, 8000)
      .catch((error: unknown) => this.wrong.push(String(error)))
      .then(() => (this.teardown = undefined))
    await this.teardown
    return 'torn down'
  }

  async act(action: Action): Promise<void> {
    switch (action.do) {
      case 'prompt':
        return this.prompt(this.agent(action.id), action.text)
      case 'cancel':
        return void this.agent(action.id)?.cancel()
      case 'spoil':
        return this.spoil(action.event, action.rejects)
      case 'mend':
        return this.mend()
      case 'hire':
        return this.hire()
      case 'retire':
        await this.hired.pop()?.dispose()
        return
      case 'reload':
        return void this.tearDown(action.name, 'reload')
      case 'pause':
        for (let i = 0; i < action.turns; i++) await turn()
        return
      default:
        return action satisfies never
    }
  }

  private prompt(agent: Agent | undefined, text: string): void {
    if (agent) this.ended.push(agent.prompt(text).answer().catch(String))
  }

  private spoil(name: keyof Events & string, rejects: boolean): void {
    const listener = (): unknown => {
      if (rejects) return Promise.reject(new Error('bad'))
      throw new Error('bad')
    }
    this.listeners.push(this.harness.root.on(name, listener as never, { prepend: true }))
  }

  private mend(): void {
    for (const stop of this.listeners.splice(0)) stop()
  }

  /** Somebody who asks for an agent, which ends with him. */
  private async hire(): Promise<void> {
    if (this.teardown) return
    let own!: Context
    const owner = await this.harness.root.plugin({ name: 'owner', apply: ctx => void (own = ctx) })
    this.hired.push(owner)
    const agents = own.get('agents')
    const id = `hired-${this.memory.size}`
    const agent = await agents?.create({ id }).catch(() => undefined)
    if (agent && !agent.session.closed) this.prompt(agent, 'use wait 1 then add 1 2')
  }

  /** The agent, unless it is away. */
  private agent(id: string): Agent | undefined {
    const agent = this.harness.root.get('agents')?.get(id)
    return agent?.session.closed ? undefined : agent
  }

  /** Ends the harness in the middle of what it does. */
  async end(how: 'from inside' | 'from outside'): Promise<void> {
    while (this.teardown) await this.teardown
    const agent = how === 'from inside' ? this.agent('ada') : undefined
    this.ending = true
    if (agent) {
      const torn = this.harness.event('session/event', ({ event }) => event.type === 'call').catch(() => {})
      agent.prompt('use saw root')
      await Promise.race([torn, turn()])
    }
    while (this.teardown) await this.teardown
    await promptly(this.harness.root.fiber.dispose(), `the end ${how}`)
    this.mend()
    this.hired.length = 0
    this.ending = false
    this.problems.push(...this.harness.problems)
    await promptly(Promise.all(this.ended.splice(0)), 'everybody who waits is told')
  }

  /** Waits until every prompt on record has an end; whoever is left answers. */
  async finish(): Promise<void> {
    const settle = async () => {
      // What is asked already goes on tearing down.
      while (this.teardown || this.due().length > 0) {
        await this.teardown
        const agents = this.harness.root.get('agents')
        for (const id of this.due()) if (!agents?.get(id)) await agents?.resume({ id }).catch(() => {})
        await turn()
      }
    }
    await promptly(settle(), 'an end of each prompt', 10_000).catch((error: unknown) => {
      throw new Error(this.due().join('\n'), { cause: error })
    })
    this.mend()
    for (const id of ids) if (!isOver(this.record(id))) expect(await this.harness.ask(id, 'last')).toContain('last')
    await turn()
    this.problems.push(...this.harness.problems)
  }

  /** The sessions that owe somebody an end. */
  private due(): string[] {
    return [...this.memory.keys()].filter(id => {
      const record = this.record(id)
      return !isOver(record) && endsOf(record).length < promptsOf(record).length
    })
  }

  record(id: string): SessionEvent[] {
    return (this.memory.get(id) ?? []).map(line => JSON.parse(line) as SessionEvent)
  }
}

const promptIds = (record: readonly SessionEvent[], ...types: SessionEvent['type'][]) =>
  record.flatMap(({ type, data }) => (types.includes(type) ? [(data as { promptId: string }).promptId] : []))
const promptsOf = (record: readonly SessionEvent[]) => promptIds(record, 'prompt')
const endsOf = (record: readonly SessionEvent[]) => promptIds(record, 'answer', 'failed', 'cancelled')
const isOver = (events: readonly SessionEvent[]) => events.at(-1)?.type === 'ended'

/** Each prompt has exactly one end, or its agent has ended; nothing is said twice, and nothing after the end. */
export function expectOneEndEach(run: Sequence): void {
  expect(run.wrong).toEqual([])
  const expected = /^warn (?:agent "[^"]*": )?provider "root": its listener of \S+ failed(?: for \S+ "[^"]*")?: bad$/
  expect(run.problems.filter(problem => !expected.test(problem))).toEqual([])
  for (const id of run.memory.keys()) {
    const record = run.record(id)
    expect(record.map(({ seq }) => seq)).toEqual(record.map((_, index) => index))
    const [prompts, ends] = [promptsOf(record), endsOf(record)]
    expect(new Set(ends).size, `${id}: ends`).toBe(ends.length)
    expect(prompts, `${id}: prompts`).toEqual(expect.arrayContaining(ends))
    if (!isOver(record)) expect(ends.toSorted(), `${id}: each prompt has an end`).toEqual(prompts.toSorted())
    expect(record.slice(0, -1).filter(({ type }) => type === 'ended')).toEqual([])
    const results = record.flatMap(({ type, data }) => (type === 'result' ? [data.callId] : []))
    expect(new Set(results).size, `${id}: results`).toBe(results.length)
  }
}
