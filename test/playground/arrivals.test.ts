import { describe, expect, test } from 'vitest'
import type { Context } from 'cordis'
import type { Agent } from '../../playground/providers/agents.ts'
import { deferred, promptly, turn } from '../promptly.ts'
import { boot, expectSound, type Harness } from './fixture.ts'

/** A provider that asks for agents. */
async function owner({ root }: Harness) {
  let own!: Context
  const fiber = await root.plugin({
    name: 'owner',
    inject: ['agents'],
    apply(ctx: Context) {
      own = ctx
    }
  })
  return { ctx: own, fiber }
}

describe('a setup that never ends', () => {
  const setup = () => new Promise<void>(() => {})

  for (const name of ['agent-loop', 'agents', 'sessions'] as const) {
    test(`is given up with a reload of ${name}, and the id is free again`, async () => {
      const harness = await boot()
      const created = harness.root.agents.create({ id: 'ada', setup })
      const refused = expect(promptly(created, 'the refusal')).rejects.toThrow('agent loop is stopped')
      await turn()
      await harness.reload(name, { announced: false })
      await refused
      expect(harness.root.sessions.ids()).toEqual([])
      expect(await harness.ask('ada', 'hello')).toContain('hello')
      expect(harness.problems).toEqual([])
    })
  }

  test('keeps its id for as long as it runs, and what comes of it later is nobody’s', async () => {
    const harness = await boot()
    const { agents } = harness.root
    const gate = deferred()
    const scopes: Context[] = []
    const created = agents.create({
      id: 'ada',
      setup: async ctx => {
        scopes.push(ctx)
        await gate.promise
        throw new Error('too late')
      }
    })
    const refused = expect(created).rejects.toThrow('agent loop is stopped')
    await turn()
    await expect(agents.create({ id: 'ada' })).rejects.toThrow('session "ada" exists')
    await harness.reload('agent-loop', { announced: false })
    await refused
    gate.resolve()
    await turn()
    expect(() => scopes[0]!.effect(() => () => {})).toThrow('inactive context')
    expect(harness.root.agents.list()).toEqual([])
  })

  test('is given up when whoever asked for it unloads', async () => {
    const harness = await boot()
    const { ctx, fiber } = await owner(harness)
    const created = ctx.agents.create({ id: 'ada', setup })
    const refused = expect(promptly(created, 'the refusal')).rejects.toThrow(
      'agent "ada": whoever asked for it has gone'
    )
    await turn()
    await fiber.dispose()
    await refused
    expect(await harness.ask('ada', 'hello')).toContain('hello')
  })

  test('of an agent on record is given up too, and the agent can be resumed', async () => {
    const harness = await boot()
    const { ctx, fiber } = await owner(harness)
    harness.root.sessionLog.append('bo', { seq: 0, time: 0, type: 'created', data: { agentId: 'bo' } })
    const resumed = ctx.agents.resume({ id: 'bo', setup })
    const refused = expect(promptly(resumed, 'the refusal')).rejects.toThrow('has gone')
    await turn()
    await fiber.dispose()
    await refused
    const bo = await harness.root.agents.resume({ id: 'bo' })
    expect(await promptly(bo.prompt('hello').answer(), 'answer')).toContain('hello')
  })
})

describe('the unload of whoever asked for an agent', () => {
  test('ends it: unlisted, stopped in its call, its scope gone; its session can be resumed and goes on', async () => {
    const harness = await boot()
    const { agents } = harness.root
    const { ctx, fiber } = await owner(harness)
    let calls = 0
    await harness.offer({
      name: 'hang',
      idempotent: true,
      execute: ({ signal }) =>
        ++calls > 1 ? 'done' : new Promise((_, reject) => signal.addEventListener('abort', () => reject(signal.reason)))
    })
    const [ada, bo] = [await ctx.agents.create({ id: 'ada' }), await agents.create({ id: 'bo' })]
    const seq: string[] = []
    ada.ctx.effect(() => () => void seq.push('scope ends'))
    harness.root.on('agent/disposed', ({ agent }) => void seq.push(`${agent.id} unlisted`))
    const called = harness.recorded('ada', 'call')
    const { promptId } = ada.prompt('use hang')
    await called
    await promptly(fiber.dispose(), 'the unload')
    expect(seq).toEqual(['ada unlisted', 'scope ends'])
    expect([agents.list(), ada.session.closed]).toEqual([[bo], true])
    const again = await agents.resume({ id: 'ada' })
    expect(await promptly(again.answer(promptId), 'answer')).toContain('done')
    expectSound(harness.record('ada'))
    expect(harness.problems).toEqual([])
  })

  test('is not heard of by an agent that has ended before, and keeps nothing of it', async () => {
    const harness = await boot()
    const { ctx, fiber } = await owner(harness)
    const before = ctx.fiber.getEffects().length
    const ada = await ctx.agents.create({ id: 'ada' })
    expect(ctx.fiber.getEffects().length).toBe(before + 1)
    await ada.end()
    expect(ctx.fiber.getEffects().length).toBe(before)
    const refused = ctx.agents.create({ id: 'bo', setup: () => Promise.reject(new Error('not now')) })
    await expect(refused).rejects.toThrow('not now')
    expect(ctx.fiber.getEffects().length).toBe(before)
    await fiber.dispose()
  })

  test('ends it also when one of its own calls starts it and waits', async () => {
    const harness = await boot()
    const { ctx, fiber } = await owner(harness)
    const felled = deferred()
    await harness.offer({ name: 'saw', execute: async () => (await fiber.dispose(), felled.resolve(), 'fell') })
    const ada = await ctx.agents.create({ id: 'ada' })
    ada.prompt('use saw')
    await promptly(felled.promise, 'the unload')
    await turn()
    expect([harness.root.agents.list(), ada.session.events.at(-1)!.type]).toEqual([[], 'call'])
    expect(harness.problems).toEqual([])
  })

  test('refuses an agent that is asked for while it runs', async () => {
    const harness = await boot()
    const { root } = harness
    let refused: unknown
    const fiber = await root.plugin({
      name: 'owner',
      inject: ['agents'],
      apply(ctx: Context) {
        const { agents } = ctx
        ctx.effect(() => async () => {
          refused = await agents.create({ id: 'ada' }).catch(String)
        })
      }
    })
    await fiber.dispose()
    expect(refused).toBe('Error: agent "ada": whoever asks for it is unloading')
    expect(root.agents.list()).toEqual([])
  })

  test('leaves a child alone when it is the tool’s that asked for it: a reload of the tools ends nobody', async () => {
    const harness = await boot()
    const { root } = harness
    const gate = deferred<string>()
    await harness.offer({ name: 'gate', execute: () => gate.promise })
    const ada = await root.agents.create({ id: 'ada' })
    const inChild = harness.event(
      'session/event',
      ({ sessionId, event }) => sessionId !== 'ada' && event.type === 'call'
    )
    const { promptId } = ada.prompt('spawn: use gate')
    await inChild
    const child = root.agents.list().find(agent => agent !== ada)!
    await root.parallel('harness-hmr/before-reload', {
      providers: [],
      services: [],
      uses: [],
      signal: new AbortController().signal,
      waitsFor: () => {}
    })
    const disposed = harness.dispose('basic-tools')
    await turn()
    expect([root.agents.get(child.id) === child, child.session.closed]).toEqual([true, false])
    gate.resolve('the child knows')
    await disposed
    await harness.install('basic-tools')
    await promptly(ada.answer(promptId), 'answer')
    expectSound(harness.record('ada'))
  })
})

test('an agent whose session is of another id is not listed', async () => {
  const harness = await boot()
  const { agents } = harness.root
  const ada = { id: 'ada', session: { id: 'bo' } } as unknown as Agent
  expect(() => agents.register(ada)).toThrow('agent "ada": its session is "bo"')
  expect(agents.list()).toEqual([])
})
