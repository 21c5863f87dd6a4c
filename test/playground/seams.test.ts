import { describe, expect, test } from 'vitest'
import { readScript } from '../../playground/providers/llm/script.ts'
import { deferred, promptly, turn } from '../promptly.ts'
import { boot } from './fixture.ts'

describe('ctx.agentExecution', () => {
  test('carries the frame that was given and the agent of a driver', async () => {
    const harness = await boot()
    const { agents, agentExecution } = harness.root
    expect(agentExecution.current()).toBeUndefined()
    expect(() => agentExecution.require()).toThrow('no agent execution context is active')
    const ada = await agents.create({ id: 'ada' })
    const frame = { agent: ada }
    await agentExecution.run(frame, async () => {
      await turn()
      expect(agentExecution.require()).toBe(frame)
      expect(agents.requireInitiator()).toBe(ada)
      agentExecution.run(undefined, () => {
        expect(agentExecution.current()).toBeUndefined()
        expect(agents.currentInitiator()).toBeUndefined()
      })
    })
    agents.withInitiator(ada, () => expect(agentExecution.require()).toEqual({ agent: ada }))
  })

  test('returns the exact Promise and gives the caller its own frame back', async () => {
    const harness = await boot()
    const { agents, agentExecution } = harness.root
    const [ada, bo] = [await agents.create({ id: 'ada' }), await agents.create({ id: 'bo' })]
    const promise = Promise.resolve(1)
    agentExecution.run({ agent: ada }, () => {
      expect(agentExecution.run({ agent: bo }, () => promise)).toBe(promise)
      expect(() =>
        agentExecution.run({ agent: bo }, () => {
          throw new Error('thrown')
        })
      ).toThrow('thrown')
      expect(agentExecution.require().agent).toBe(ada)
    })
  })

  test('drains, is disposed, and goes and returns with ctx.agents', async () => {
    const harness = await boot()
    const { root } = harness
    const { agentExecution } = root
    const ada = await root.agents.create({ id: 'ada' })
    const gate = deferred()
    const seq: string[] = []
    const running = agentExecution.run({ agent: ada }, async () => {
      await gate.promise
      seq.push(`reads ${agentExecution.require().agent.id}`)
    })
    const disposed = harness.dispose('agents').then(() => seq.push('disposed'))
    await turn()
    expect(root.get('agentExecution')).toBeUndefined()
    expect(() => agentExecution.run(undefined, () => {})).toThrow('agent execution service is disposed')
    gate.resolve()
    await Promise.all([running, disposed])
    expect(seq).toEqual(['reads ada', 'disposed'])
    expect(() => agentExecution.current()).toThrow('agent execution service is disposed')
    await harness.install('agents')
    await harness.settled()
    expect(root.agentExecution.current()).toBeUndefined()
  })
})

describe('ctx.agentExecution when its own boundary starts the teardown', () => {
  for (const which of ['agent-execution', 'agents', 'root'] as const) {
    test(`does not wait for a boundary that disposes ${which}, nested and after awaits, but for unrelated ones`, async () => {
      const harness = await boot()
      const { root } = harness
      const { agentExecution } = root
      const [ada, bo] = [await root.agents.create({ id: 'ada' }), await root.agents.create({ id: 'bo' })]
      const gate = deferred()
      const seq: string[] = []
      const unrelated = agentExecution.run({ agent: bo }, async () => {
        await gate.promise
        seq.push(`reads ${agentExecution.require().agent.id}`)
      })
      const running = agentExecution.run({ agent: ada }, async () => {
        await turn()
        await agentExecution.run(undefined, async () => {
          await turn()
          await (which === 'root' ? root.fiber : harness.fiber(which)).dispose()
          seq.push('disposed')
        })
      })
      for (let i = 0; i < 4; i++) await turn()
      expect(seq).toEqual([])
      gate.resolve()
      await promptly(Promise.all([unrelated, running]), 'disposal')
      expect(seq).toEqual(['reads bo', 'disposed'])
      expect(() => agentExecution.current()).toThrow('agent execution service is disposed')
    })
  }

  test('isolates overlapping, nested and cleared boundaries, and restores after a rejection', async () => {
    const { root } = await boot()
    const { agentExecution } = root
    const [ada, bo] = [await root.agents.create({ id: 'ada' }), await root.agents.create({ id: 'bo' })]
    const gate = deferred()
    const read = async () => (await gate.promise, agentExecution.current()?.agent)
    const reads = [{ agent: ada }, { agent: bo }, undefined].map(frame => agentExecution.run(frame, read))
    gate.resolve()
    expect(await Promise.all(reads)).toEqual([ada, bo, undefined])
    await agentExecution.run({ agent: ada }, async () => {
      const rejected = agentExecution.run(undefined, () => Promise.reject(new Error('rejected')))
      await expect(rejected).rejects.toThrow('rejected')
      expect(agentExecution.require().agent).toBe(ada)
    })
    expect(agentExecution.current()).toBeUndefined()
  })
})

describe('the simulated model', () => {
  const tools = [
    {
      name: 'add',
      description: '',
      parameters: { a: { type: 'number', description: '' }, b: { type: 'number', description: '' } }
    },
    { name: 'note', description: '', parameters: { text: { type: 'string', description: '' } } }
  ] as const

  test.each([
    ['hello', []],
    ['use add 2 3', [[{ name: 'add', args: { a: 2, b: 3 } }]]],
    [
      'please use add 2 3 and note buy bread then add 4 5',
      [
        [
          { name: 'add', args: { a: 2, b: 3 } },
          { name: 'note', args: { text: 'buy bread' } }
        ],
        [{ name: 'add', args: { a: 4, b: 5 } }]
      ]
    ],
    ['use unknown x y', [[{ name: 'unknown', args: {} }]]],
    [
      'use add 1 1 spawn: use add 2 3 then note x',
      [[{ name: 'add', args: { a: 1, b: 1 } }], [{ name: 'spawn', args: { text: 'use add 2 3 then note x' } }]]
    ]
  ])('reads the script of "%s"', (text, script) => {
    expect(readScript(text, [...tools])).toEqual(script)
  })

  test('streams the same for the same session, step and prompt, and stops with the reason of the signal', async () => {
    const { root } = await boot()
    const messages = [{ role: 'user', text: 'use add 1 2' }] as const
    const stream = (signal = new AbortController().signal) =>
      root.llm.generate({ sessionId: 'ada', system: '', messages, tools: root.tools.list(), signal })
    const collect = async () => {
      const deltas = []
      for await (const delta of stream()) deltas.push(delta)
      return deltas
    }
    expect(await collect()).toEqual(await collect())
    const reason = new Error('enough')
    await expect(stream(AbortSignal.abort(reason)).next()).rejects.toBe(reason)
  })
})

describe('tools', () => {
  test('refuse a second one of the same name, and one that yields without being idempotent', async () => {
    const { root } = await boot()
    const tool = { name: 'one', description: '', parameters: {}, execute: () => '' }
    root.tools.register(tool)
    expect(() => root.tools.register(tool)).toThrow('tool "one" is already registered')
    expect(() => root.tools.register({ ...tool, name: 'two', yields: true })).toThrow('must be idempotent')
  })
})
