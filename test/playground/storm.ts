/** What may happen to five agents, and what must hold after. */
import * as fc from 'fast-check'
import { expect } from 'vitest'
import { SCOPE_SLOT, type BoundaryScope } from '../../plugin/scope.ts'
import type { Agent, AgentRegistry } from '../../playground/providers/agents.ts'
import type { SessionEvent } from '../../playground/providers/sessions.ts'
import { promptly, turn } from '../promptly.ts'
import { expectSound, Harness, providerNames, type ProviderName, reloaded } from './fixture.ts'

const ids = ['ada', 'bo', 'cy', 'di', 'ed']
const texts = [
  'hello',
  'use probe',
  'use add 1 2 then probe',
  'use note x and probe',
  'use wait 3',
  'spawn: use probe then wait 1',
  'spawn: spawn: use probe'
]

/** What may happen. */
export type Action =
  | { do: 'prompt'; id: string; text: string; giveUp: boolean }
  | { do: 'cancel'; id: string }
  | { do: 'abort' }
  | { do: 'reload'; name: ProviderName; announced: boolean; grace: number }
  | { do: 'pause'; turns: number }

const id = fc.constantFrom(...ids)
export const action: fc.Arbitrary<Action> = fc.oneof(
  {
    weight: 6,
    arbitrary: fc.record({ do: fc.constant('prompt'), id, text: fc.constantFrom(...texts), giveUp: fc.boolean() })
  },
  { weight: 2, arbitrary: fc.record({ do: fc.constant('cancel'), id }) },
  { weight: 1, arbitrary: fc.record({ do: fc.constant('abort') }) },
  {
    weight: 2,
    arbitrary: fc.record({
      do: fc.constant('reload'),
      name: fc.constantFrom(...providerNames),
      announced: fc.boolean(),
      grace: fc.constantFrom(0, 5, 2000)
    })
  },
  { weight: 5, arbitrary: fc.record({ do: fc.constant('pause'), turns: fc.integer({ min: 1, max: 12 }) }) }
) as fc.Arbitrary<Action>

/** Every scope that a run creates, for as long as it runs. */
const scopes = new Set<BoundaryScope<never>>()

/** Takes note of every scope; returns how to stop. */
export function watchScopes(): () => void {
  const slot = globalThis as Record<symbol, unknown>
  slot[SCOPE_SLOT] = (scope: BoundaryScope<never>) => scopes.add(scope)
  return () => void delete slot[SCOPE_SLOT]
}

/** One run: five agents, and whatever happens to them. */
export class Run {
  readonly harness = new Harness({})
  readonly wrong: string[] = []
  readonly accepted: [id: string, promptId: string][] = []
  readonly cancels = new Map<string, number>()
  private readonly givenUp: Promise<void>[] = []
  /** Reloads come one at a time, as in the plugin; everything else happens meanwhile. */
  private reloads: Promise<unknown> = Promise.resolve()

  async start(): Promise<void> {
    scopes.clear()
    for (const name of providerNames) await this.harness.install(name)
    await this.harness.root.plugin({
      name: 'probe',
      inject: ['agents', 'tools', 'prompt'],
      apply: ctx => this.probe(ctx)
    })
    for (const id of ids) await this.harness.root.agents.create({ id })
  }

  /** Compares who runs with who is meant to, at every seam and across awaits. */
  private probe(ctx: Harness['root']): void {
    const { agents } = ctx
    const look = (seam: string, agent: Agent | undefined) => this.look(agents, seam, agent)
    ctx.on('agent/delta', ({ agent }) => look('model', agent))
    ctx.prompt.contribute({ name: 'probe', render: ({ agent }) => (look('prompt', agent), '') })
    ctx.tools.approve({ name: 'probe', object: ({ subject }) => look('approval', subject) })
    ctx.tools.register({
      name: 'probe',
      description: 'Looks who runs.',
      parameters: {},
      idempotent: true,
      async execute({ agent, signal }) {
        signal.addEventListener('abort', () => look('abort', agent))
        for (let i = 0; i < 3; i++) {
          look('tool', agent)
          await turn()
        }
        return 'looked'
      }
    })
  }

  private look(agents: AgentRegistry, seam: string, agent: Agent | undefined): undefined {
    const current = agents.currentInitiator()
    if (current !== agent) this.wrong.push(`${seam} of ${agent?.id} runs as ${current?.id}`)
  }

  async act(action: Action): Promise<void> {
    if (action.do === 'pause') for (let i = 0; i < action.turns; i++) await turn()
    else if (action.do === 'reload') this.enqueue(() => this.harness.reload(action.name, action))
    else if (action.do === 'abort') this.enqueue(() => this.abortAll())
    else if (action.do === 'cancel') this.cancel(action.id)
    else this.prompt(action)
  }

  private enqueue(task: () => Promise<unknown>): void {
    this.reloads = this.reloads
      .then(task)
      .catch((error: unknown) => this.wrong.push(`a reload failed: ${String(error)}`))
  }

  /** Everything that runs is cut off and goes on after. */
  private async abortAll(): Promise<void> {
    const event = { providers: [], services: ['agentLoop'], uses: [], signal: AbortSignal.abort(), waitsFor: () => {} }
    await promptly(this.harness.root.parallel('harness-hmr/before-reload', event), 'the abort')
    await this.harness.root.parallel('harness-hmr/after-reload', reloaded)
  }

  private cancel(id: string): void {
    if (this.agent(id)?.cancel()) this.cancels.set(id, (this.cancels.get(id) ?? 0) + 1)
  }

  private prompt({ id, text, giveUp }: Extract<Action, { do: 'prompt' }>): void {
    const agent = this.agent(id)
    if (!agent) return
    const { promptId, answer } = agent.prompt(text)
    this.accepted.push([id, promptId])
    if (!giveUp) return
    const reason = new Error('given up')
    const check = (outcome: unknown) => void (outcome === reason || this.wrong.push(`a waiter got ${String(outcome)}`))
    this.givenUp.push(answer(AbortSignal.abort(reason)).then(check, check))
  }

  /** The agent, unless it is being replaced: then it is not to be had. */
  private agent(id: string): Agent | undefined {
    const agent = this.harness.root.get('agents')?.get(id)
    return agent?.session.closed ? undefined : agent
  }

  /** Every prompt has ended, and each agent still answers. */
  async finish(): Promise<void> {
    await promptly(this.reloads, 'the reloads', 20_000)
    await Promise.all(this.givenUp)
    for (const [id, promptId] of this.accepted) {
      const ended = this.agent(id)!
        .answer(promptId)
        .catch(() => {})
      await promptly(ended, `an end of ${promptId} of ${id}`)
    }
    for (const id of ids) await this.harness.ask(id, 'last')
    // The children that were given up end with a macrotask of their own.
    await turn()
  }

  async dispose(): Promise<void> {
    await promptly(this.harness.root.fiber.dispose(), 'disposal')
  }
}

/** Everything that the sessions of a run that has finished must say, and that nobody ran as somebody else. */
export function expectSoundRun({ harness: { root, problems }, wrong, accepted, cancels }: Run): void {
  const names = root.agents.list().map(({ id }) => id)
  expect([wrong, problems, names.toSorted()]).toEqual([[], [], ids])
  for (const id of root.sessions.ids()) {
    const events = root.sessions.read(id)
    if (!ids.includes(id)) {
      expectSoundChild(events)
      continue
    }
    expectSound(events)
    expectAnswers(events)
    const prompts = events.flatMap(({ type, data }) => (type === 'prompt' ? [data.promptId] : []))
    const promptIds = accepted.flatMap(([owner, promptId]) => (owner === id ? [promptId] : []))
    expect(prompts).toEqual(expect.arrayContaining(promptIds))
    const count = (type: SessionEvent['type']) => events.filter(event => event.type === type).length
    expect([count('failed'), count('cancelled')]).toEqual([0, cancels.get(id) ?? 0])
  }
}

/** Each answer is the answer to its prompt, and a turn that is over gets nothing more. */
function expectAnswers(events: readonly SessionEvent[]): void {
  const texts = new Map(events.flatMap(({ type, data }) => (type === 'prompt' ? [[data.promptId, data.text]] : [])))
  const over = new Set<string>()
  for (const { type, data } of events) {
    if (type === 'answer') expect(data.text).toContain(`About "${texts.get(data.promptId)}"`)
    if (type === 'answer' || type === 'cancelled') over.add(data.promptId)
    if (type === 'call' || type === 'result') expect(over).not.toContain(data.callId.split('-')[0])
  }
}

/** A child is asked and answers once at most: not when it was given up with the call that asked for it. */
function expectSoundChild(events: readonly SessionEvent[]): void {
  expect(events.map(({ seq }) => seq)).toEqual(events.map((_, index) => index))
  for (const once of ['prompt', 'turn', 'answer']) {
    expect(events.filter(({ type }) => type === once).length, once).toBeLessThanOrEqual(1)
  }
  expect(events.filter(({ type }) => type === 'failed' || type === 'cancelled')).toEqual([])
  expect(events.at(-1)!.type).toBe('ended')
}

/** Parked and then disposed, a run has no boundary open. */
export async function expectNoBoundary({ harness: { root } }: Run): Promise<void> {
  await promptly(root.agentLoop.park(), 'parking')
  const open = [...scopes].flatMap(scope => (scope.state === 'disposed' ? [] : scope.boundaries()))
  expect(open).toEqual([])
  await promptly(root.fiber.dispose(), 'disposal')
  expect([...scopes].filter(({ state }) => state !== 'disposed')).toEqual([])
}
