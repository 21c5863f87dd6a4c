import { describe, expect, test } from 'vitest'
import { deferred, promptly, turn } from '../promptly.ts'
import { boot } from './fixture.ts'

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
})

describe('teardown from inside a driver', () => {
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
