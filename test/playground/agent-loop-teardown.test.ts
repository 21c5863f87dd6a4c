import { describe, expect, test } from 'vitest'
import { deferred, promptly, turn } from '../promptly.ts'
import { boot, expectSound } from './fixture.ts'

describe('a restart of the registry', () => {
  test('drains the old driver, changes the service, and new agents work; those of old stay readable', async () => {
    const harness = await boot()
    const { root } = harness
    const gate = deferred<string>()
    const seq: string[] = []
    await harness.offer({ name: 'gate', execute: () => gate.promise })
    const [old, ada] = [root.agents, await root.agents.create({ id: 'ada' })]
    const called = harness.recorded('ada', 'call')
    const { promptId } = ada.prompt('use gate')
    await called
    harness.root.on('agent/parked', ({ agent }) => void seq.push(`${agent.id} parked`))
    const restarted = harness.reload('agents', { announced: false }).then(() => seq.push('restarted'))
    await turn()
    expect([root.get('agents'), seq]).toEqual([undefined, []])
    gate.resolve('opened')
    await promptly(restarted, 'restart')
    expect(seq).toEqual(['ada parked', 'restarted'])
    expect(() => old.currentInitiator()).toThrow('agent initiator scope is disposed')
    expect(await promptly(root.agents.get('ada')!.answer(promptId), 'answer')).toContain('opened')
    expect(await harness.ask('bo', 'hello')).toContain('hello')
    expect([ada.id, ada.session.id, ada.cwd, ada.parent]).toEqual(['ada', 'ada', process.cwd(), undefined])
    expect(ada.session.events.map(({ type }) => type)).toContain('answer')
    expect(() => ada.prompt('late')).toThrow('session "ada" is closed')
  })

  test('by fiber.restart() does the same, and hands everybody the new instance', async () => {
    const harness = await boot()
    const { root } = harness
    const old = root.agents
    const ada = await root.agents.create({ id: 'ada' })
    const gate = deferred<string>()
    await harness.offer({ name: 'gate', execute: () => gate.promise })
    const called = harness.recorded('ada', 'call')
    const { promptId } = ada.prompt('use gate then send / hello')
    await called
    const seq: string[] = []
    const restarted = harness
      .fiber('agents')
      .restart()
      .then(() => seq.push('restarted'))
    expect(() => old.withoutInitiator(() => {})).toThrow('agent initiator scope is disposed')
    await turn()
    expect([root.get('agents'), seq]).toEqual([undefined, []])
    gate.resolve('opened')
    await promptly(restarted, 'restart')
    await harness.settled()
    expect(() => old.currentInitiator()).toThrow('agent initiator scope is disposed')
    expect([root.agents === old, root.agentExecution.current()]).toEqual([false, undefined])
    const again = root.agents.get('ada')!
    expect(again === ada).toBe(false)
    expect(await promptly(again.answer(promptId), 'answer')).toContain('opened; delivered to /')
    expectSound(harness.record('ada'))
    expect(harness.problems).toEqual([])
  })

  test('by one of the tools that it has to drain neither hangs nor loses the turn', async () => {
    const harness = await boot()
    const { root } = harness
    let times = 0
    await harness.offer({
      name: 'saw',
      idempotent: true,
      execute: async () => (++times > 1 || (await harness.fiber('agents').restart()), 'sawn')
    })
    const { promptId, answer } = (await root.agents.create({ id: 'ada' })).prompt('use saw')
    expect(await promptly(answer(), `answer to ${promptId}`)).toContain('sawn')
    expect(times).toBe(2)
    expectSound(harness.record('ada'))
  })
})

describe('teardown from inside a driver', () => {
  test('does not hang when a tool joins an unload that somebody else has begun', async () => {
    for (const which of ['agents', 'root'] as const) {
      const harness = await boot()
      const go = deferred()
      const fiber = which === 'root' ? harness.root.fiber : harness.fiber(which)
      await harness.offer({ name: 'saw', execute: async () => (await go.promise, await fiber.dispose(), 'fell') })
      const ada = await harness.root.agents.create({ id: 'ada' })
      const called = harness.recorded('ada', 'call')
      ada.prompt('use saw')
      await called
      const disposed = harness.fiber('agents').dispose()
      await turn()
      go.resolve()
      await promptly(disposed, 'disposal')
    }
  })

  test('neither hangs nor writes on when a child disposes what its parent, who waits for it, runs on', async () => {
    for (const name of ['agents', 'agent-loop', 'tools'] as const) {
      const harness = await boot()
      const { agents } = harness.root
      const felled = deferred()
      await harness.offer({
        name: 'saw',
        execute: async () => {
          await harness.fiber(name).dispose()
          felled.resolve()
          return 'fell'
        }
      })
      // Unlike spawn, this tool does not care for its signal.
      await harness.offer({
        name: 'hire',
        execute: async () => (await agents.create({ id: 'bo' })).prompt('use saw').answer()
      })
      const [ada, cy] = [await agents.create({ id: 'ada' }), await agents.create({ id: 'cy' })]
      const unrelated = deferred<string>()
      await harness.offer({ name: 'gate', execute: () => unrelated.promise })
      const called = harness.recorded('cy', 'call')
      cy.prompt('use gate')
      await called
      const sawing = harness.recorded('bo', 'call')
      ada.prompt('use hire')
      await sawing
      unrelated.resolve('done')
      await promptly(felled.promise, `disposal of ${name}`)
      await turn()
      expect(ada.session.events.at(-1)!.type).toBe('call')
      expect(cy.session.events.at(-1)).toMatchObject({ type: 'result', data: { output: 'done' } })
      expect(harness.problems).toEqual([])
    }
  })

  for (const which of ['agents', 'agent-loop', 'sessions', 'session-log', 'tools', 'root'] as const) {
    test(`a tool that disposes ${which} and waits for it neither hangs nor writes on`, async () => {
      const harness = await boot()
      const { root } = harness
      const finished = deferred()
      const dispose = () => (which === 'root' ? root.fiber : harness.fiber(which)).dispose()
      await harness.offer({
        name: 'saw',
        execute: async () => {
          await dispose()
          setImmediate(finished.resolve)
          return 'fell'
        }
      })
      const ada = await root.agents.create({ id: 'ada' })
      const bo = await root.agents.create({ id: 'bo' })
      const streaming = harness.event('agent/delta', ({ agent }) => agent.id === 'bo')
      bo.prompt('slow and steady')
      await streaming
      ada.prompt('use saw')
      await promptly(finished.promise, 'the tool')
      await turn()
      expect([ada.session.closed, bo.session.closed]).toEqual([true, true])
      expect(ada.session.events.at(-1)!.type).toBe('call')
    })
  }
})
