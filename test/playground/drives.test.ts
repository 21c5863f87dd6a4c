import { describe, expect, test } from 'vitest'
import { deferred, promptly, turn } from '../promptly.ts'
import { boot, expectSound, type Harness } from './fixture.ts'

const turns = async (count: number) => {
  for (let i = 0; i < count; i++) await turn()
}

/** Bo disposes the registry while ada is in a call that has nothing to do with it. */
async function expectHerCallCounts(harness: Harness, text = 'use gate') {
  const { agents } = harness.root
  const [gate, called, felled] = [deferred<string>(), deferred(), deferred()]
  const seq: string[] = []
  await harness.offer({ name: 'gate', execute: () => (called.resolve(), gate.promise) })
  await harness.offer({
    name: 'saw',
    async execute() {
      await called.promise
      await harness.fiber('agents').dispose()
      seq.push('disposed')
      felled.resolve()
      return 'fell'
    }
  })
  const ada = agents.get('ada')!
  ada.prompt(text)
  await promptly(called.promise, 'her call')
  if (text === 'use gate') agents.get('bo')!.prompt('use saw')
  await turns(10)
  seq.push('her call ends')
  gate.resolve('opened')
  await promptly(felled.promise, 'the disposal')
  await turns(3)
  expect(seq).toEqual(['her call ends', 'disposed'])
  expect(ada.session.events.at(-1)).toMatchObject({ type: 'result', data: { output: 'opened' } })
  expect(harness.problems).toEqual([])
}

describe('an agent that disposes the registry waits for an unrelated one', () => {
  test('whose turn, long over, has created it', async () => {
    const harness = await boot()
    const { agents } = harness.root
    await harness.offer({ name: 'make', execute: async () => (await agents.create({ id: 'bo' })).id })
    await harness.ask('ada', 'use make')
    await expectHerCallCounts(harness)
  })

  test('whose turn, long over, has woken it', async () => {
    const harness = await boot()
    const { agents } = harness.root
    const bo = await agents.create({ id: 'bo' })
    await harness.offer({ name: 'poke', execute: () => bo.prompt('hello').promptId })
    await harness.ask('ada', 'use poke')
    await promptly(bo.answer('p1'), 'answer of bo')
    await expectHerCallCounts(harness)
  })

  test('which has woken it after a drive that failed', async () => {
    const harness = await boot()
    const { agents } = harness.root
    const bo = await agents.create({ id: 'bo' })
    const { flush } = bo.session
    bo.session.flush = () => Promise.reject(new Error('no disk'))
    await promptly(bo.prompt('hello').answer(), 'answer of bo')
    await turns(3)
    bo.session.flush = flush
    expect(harness.problems.splice(0)).toEqual(['error agent "bo" has stopped: no disk'])
    await harness.offer({ name: 'poke', execute: () => bo.prompt('again').promptId })
    await harness.ask('ada', 'use poke')
    await expectHerCallCounts(harness)
  })

  test('which has asked it to, in the same turn, and does not wait for it', async () => {
    const harness = await boot()
    const { agents } = harness.root
    const bo = await agents.create({ id: 'bo' })
    await harness.offer({ name: 'poke', execute: () => bo.prompt('use saw').promptId })
    await agents.create({ id: 'ada' })
    await expectHerCallCounts(harness, 'use poke then gate')
  })

  test('which it has prompted itself, and the other way round', async () => {
    const harness = await boot()
    const { agents } = harness.root
    const both = [await agents.create({ id: 'ada' }), await agents.create({ id: 'bo' })]
    await harness.offer({
      name: 'poke',
      execute: ({ agent }) => both.find(other => other !== agent)!.prompt('hello').promptId
    })
    for (const { id } of both) await harness.ask(id, 'use poke')
    await expectHerCallCounts(harness)
  })
})

describe('a drive', () => {
  test('is over when its agent is idle: nothing is open, and a disposal waits for nobody', async () => {
    const harness = await boot()
    const { agents } = harness.root
    await harness.ask('ada', 'use add 1 2')
    await turns(3)
    const seen: unknown[] = []
    const dispose = harness.fiber('agents').dispose()
    await promptly(
      dispose.then(() => seen.push('disposed')),
      'disposal'
    )
    expect([agents.initiatorState, seen]).toEqual(['disposed', ['disposed']])
  })

  test('is in nobody’s chain: what a call of its creator carries is not there', async () => {
    const harness = await boot()
    const { agents } = harness.root
    const { AsyncLocalStorage } = await import('node:async_hooks')
    const storage = new AsyncLocalStorage<string>()
    const seen: unknown[] = []
    await harness.offer({ name: 'look', execute: ({ agent }) => (seen.push(agent!.id, storage.getStore()), '') })
    await storage.run('of the creator', async () => {
      const ada = await agents.create({ id: 'ada' })
      await promptly(ada.prompt('use look').answer(), 'answer')
    })
    expect(seen).toEqual(['ada', undefined])
  })

  test('takes up a prompt that comes between its last look and its end', async () => {
    const harness = await boot()
    const ada = await harness.root.agents.create({ id: 'ada' })
    const { flush } = ada.session
    for (let ticks = 0; ticks < 12; ticks++) {
      const asked = deferred<string>()
      ada.session.flush = async () => {
        ada.session.flush = flush
        await flush.call(ada.session)
        void (async () => {
          for (let i = 0; i < ticks; i++) await null
          asked.resolve(await ada.prompt(`after ${ticks}`).answer())
        })()
      }
      ada.prompt('first')
      expect(await promptly(asked.promise, `the prompt after ${ticks} ticks`)).toContain(`after ${ticks}`)
    }
    expectSound(harness.record('ada'))
  })

  test('that nothing was asked of is parked and goes on as any other, once each', async () => {
    const harness = await boot()
    const { root } = harness
    const seq: string[] = []
    root.on(
      'agent/driving',
      ({ agent }) => void seq.push(`${agent.id} drives for ${root.agents.currentInitiator()?.id}`)
    )
    root.on('agent/parked', ({ agent }) => void seq.push(`${agent.id} is parked`))
    const ada = await root.agents.create({ id: 'ada' })
    await promptly(root.agentLoop.park(), 'parking')
    await root.agents.withInitiator(ada, async () => root.agentLoop.go())
    await harness.ask('ada', 'hello')
    await harness.ask('ada', 'hello again')
    await promptly(root.agentLoop.park(), 'parking')
    await root.agentLoop.park()
    const drives = 'ada drives for undefined'
    expect(seq).toEqual([drives, 'ada is parked', drives, 'ada is parked'])
  })
})

describe('a wait for an answer that can come only after the teardown', () => {
  test('ends in a tool that does not care for its signal: whoever tears down, and from wherever', async () => {
    for (const name of ['agents', 'agent-loop', 'tools', 'sessions'] as const) {
      const harness = await boot()
      const { agents } = harness.root
      const bo = await agents.create({ id: 'bo' })
      await harness.offer({
        name: 'gate',
        execute: ({ signal }) => new Promise((_, no) => signal.addEventListener('abort', () => no(signal.reason)))
      })
      await harness.offer({ name: 'ask', execute: () => bo.prompt('use gate').answer() })
      const ada = await agents.create({ id: 'ada' })
      const called = harness.recorded('bo', 'call')
      const { promptId } = ada.prompt('use ask')
      await called
      await harness.dispose(name)
      expect(ada.session.events.at(-1)!.type).toBe('call')
      await harness.install(name)
      await harness.settled()
      const text = await promptly(harness.root.agents.get('ada')!.answer(promptId), 'answer')
      expect(text).toContain('error: tool "ask" was interrupted')
      expectSound(harness.record('ada'))
    }
  })

  test('ends when the asker is ended by the one that it waits for', async () => {
    const harness = await boot()
    const { agents } = harness.root
    const [ada, bo] = [await agents.create({ id: 'ada' }), await agents.create({ id: 'bo' })]
    await harness.offer({ name: 'ask', execute: () => bo.prompt('use dismiss').answer() })
    await harness.offer({ name: 'dismiss', execute: async () => (await ada.end(), 'dismissed') })
    ada.prompt('use ask')
    await promptly(harness.recorded('bo', 'answer'), 'answer of bo')
    expect(agents.list()).toEqual([bo])
  })

  test('ends in any other boundary when the registry closes, and goes on elsewhere', async () => {
    const harness = await boot()
    const { agents } = harness.root
    const gate = deferred<string>()
    await harness.offer({ name: 'gate', idempotent: true, execute: () => gate.promise })
    const [ada, bo] = [await agents.create({ id: 'ada' }), await agents.create({ id: 'bo' })]
    const { promptId, answer } = bo.prompt('use gate')
    const inside = agents.withInitiator(ada, () => answer()).catch(String)
    const cleared = agents.withoutInitiator(() => answer()).catch(String)
    const outside = bo.answer(promptId)
    const reloaded = harness.reload('agents', { announced: false })
    gate.resolve('opened')
    expect(await promptly(Promise.all([inside, cleared]), 'the waits inside')).toEqual([
      'Error: agent initiator scope is disposed',
      'Error: agent initiator scope is disposed'
    ])
    await reloaded
    expect(await promptly(outside, 'the wait outside')).toContain('opened')
  })
})
