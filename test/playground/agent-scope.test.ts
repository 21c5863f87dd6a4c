import type { Context } from 'cordis'
import { describe, expect, test } from 'vitest'
import type { Agent } from '../../playground/providers/agents.ts'
import { promptly } from '../promptly.ts'
import { boot, type Harness } from './fixture.ts'

const create = ({ root }: Harness, ...ids: string[]) => Promise.all(ids.map(id => root.agents.create({ id })))

describe('ctx.agent', () => {
  test('is undefined on plain contexts and the agent inside its own, never the running one', async () => {
    const harness = await boot()
    const { root } = harness
    const [ada, bo] = (await create(harness, 'ada', 'bo')) as [Agent, Agent]
    let plain!: Context
    await root.plugin(ctx => void (plain = ctx))
    let own!: Context
    await bo.ctx.plugin(ctx => void (own = ctx))
    const read = () => [root.agent, plain.agent, ada.ctx.agent, bo.ctx.agent, own.agent]
    const still = [undefined, undefined, ada, bo, bo]
    expect(read()).toEqual(still)
    for (const running of [ada, bo]) expect(root.agents.withInitiator(running, read)).toEqual(still)
    const seen: unknown[] = []
    await harness.offer({ name: 'look', execute: () => (seen.push(...read()), 'looked') })
    await harness.ask('ada', 'use look')
    expect(seen).toEqual(still)
  })

  test('is the child in its setup and its scope, while the parent runs', async () => {
    const harness = await boot()
    const { agents } = harness.root
    const [ada] = (await create(harness, 'ada')) as [Agent]
    const seen: unknown[] = []
    const bo = await agents.withInitiator(ada, () =>
      agents.create({ id: 'bo', setup: ctx => void seen.push(ctx.agent!.id, agents.currentInitiator()) })
    )
    expect(seen).toEqual(['bo', ada])
    expect(bo.ctx.agent).toBe(bo)
    expect(harness.root.agent).toBeUndefined()
  })
})

describe('what is registered on agent.ctx', () => {
  test('tools belong to that agent alone, may replace a common one for it, and go with it', async () => {
    const harness = await boot()
    const { tools } = harness.root
    const [ada, bo] = (await create(harness, 'ada', 'bo')) as [Agent, Agent]
    for (const name of ['own', 'add']) {
      ada.ctx.tools.register({ name, description: '', parameters: {}, execute: () => 'her own' })
    }
    const has = (agent?: Agent) => tools.list(agent).some(tool => tool.name === 'own')
    expect([has(ada), has(bo), has()]).toEqual([true, false, false])
    expect(await harness.ask('ada', 'use own and add')).toContain('her own; her own')
    expect(await harness.ask('bo', 'use own')).toContain('error: tool "own" is not registered')
    expect(await harness.ask('bo', 'use add 1 2')).toContain('1 + 2 = 3')
    await ada.end()
    expect([has(ada), tools.get('own', ada), tools.get('add', ada)?.execute]).toEqual([
      false,
      undefined,
      tools.get('add')!.execute
    ])
  })

  test('prompts belong to that agent alone and go with it', async () => {
    const harness = await boot()
    const { prompt } = harness.root
    const [ada, bo] = (await create(harness, 'ada', 'bo')) as [Agent, Agent]
    ada.ctx.prompt.contribute({ name: 'own', render: () => 'own section' })
    const assemble = () => Promise.all([ada, bo, undefined].map(agent => prompt.assemble({ agent })))
    expect(await assemble()).toEqual(['own section', '', ''])
    await ada.end()
    expect(await assemble()).toEqual(['', '', ''])
  })

  test('listeners hear that agent alone and go with it', async () => {
    const harness = await boot()
    const { root } = harness
    const [ada] = (await create(harness, 'ada', 'bo')) as [Agent, Agent]
    const heard = new Set<string>()
    const hear =
      (name: string) =>
      ({ agent }: { agent: Agent }) =>
        void heard.add(`${name} ${agent.id}`)
    ada.ctx.on('agent/delta', hear('delta'))
    ada.ctx.on('agent/driving', hear('driving'))
    ada.ctx.on('agent/parked', hear('parked'))
    ada.ctx.on('agent/created', hear('created'))
    ada.ctx.on('agent/disposed', hear('disposed'))
    ada.ctx.on('session/event', ({ sessionId }) => void heard.add(`record ${sessionId}`))
    await Promise.all([harness.ask('ada', 'hello'), harness.ask('bo', 'hello'), create(harness, 'cy')])
    expect(heard).toEqual(new Set(['record ada', 'delta ada']))
    await ada.end()
    heard.clear()
    await root.agents.get('bo')!.end()
    expect(heard).toEqual(new Set())
  })

  test('those who approve are asked for that agent alone and go with it', async () => {
    const harness = await boot()
    const { tools } = harness.root
    const [ada, bo] = (await create(harness, 'ada', 'bo')) as [Agent, Agent]
    ada.ctx.tools.approve({ name: 'strict', object: ({ name }) => `no ${name} today` })
    expect(await harness.ask('ada', 'use add 1 2')).toContain(
      'error: tool "add" is not approved by "strict": no add today'
    )
    expect(await harness.ask('bo', 'use add 1 2')).toContain('1 + 2 = 3')
    const { signal } = new AbortController()
    const call = { callId: 'c', name: 'add', args: { a: 1, b: 2 }, cwd: '.', signal }
    await expect(tools.execute({ ...call, agent: ada })).rejects.toThrow('not approved')
    await ada.end()
    for (const agent of [undefined, bo, ada]) expect(await tools.execute({ ...call, agent })).toBe('1 + 2 = 3')
  })

  test('effects of any kind end with the agent, and with the reload of the loop', async () => {
    const harness = await boot()
    const seq: string[] = []
    const [ada, bo] = (await create(harness, 'ada', 'bo')) as [Agent, Agent]
    for (const agent of [ada, bo]) agent.ctx.effect(() => () => void seq.push(agent.id))
    await ada.end()
    expect(seq).toEqual(['ada'])
    await promptly(harness.reload('agent-loop'), 'reload')
    expect(seq).toEqual(['ada', 'bo'])
  })
})
