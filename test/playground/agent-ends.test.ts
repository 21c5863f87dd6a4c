import { describe, expect, test } from 'vitest'
import { deferred, promptly } from '../promptly.ts'
import { boot } from './fixture.ts'

describe('an agent that ends', () => {
  test('has nothing on record after its end, whatever its tool still gives, and stays ended', async () => {
    const harness = await boot()
    const gate = deferred<string>()
    await harness.offer({ name: 'gate', execute: () => gate.promise })
    const ada = await harness.root.agents.create({ id: 'ada' })
    const called = harness.recorded('ada', 'call')
    ada.prompt('use gate')
    ada.prompt('two')
    await called
    const ended = ada.end()
    expect(() => ada.prompt('three')).toThrow('session "ada" is closed')
    gate.resolve('late')
    await promptly(ended, 'end')
    expect(harness.record('ada').at(-1)!.type).toBe('ended')
    await harness.reload('agent-loop')
    expect(harness.root.agents.list()).toEqual([])
    expect(harness.problems).toEqual([])
  })
})

describe('a child', () => {
  test('ends with the call that asked for it, also when the parent gives its turn up', async () => {
    const harness = await boot()
    const { agents, sessions } = harness.root
    const ada = await agents.create({ id: 'ada' })
    const inGrandchild = harness.event(
      'session/event',
      ({ sessionId, event }) => /-task-/.test(sessionId) && event.type === 'call'
    )
    ada.prompt('spawn: spawn: use wait 60000')
    await inGrandchild
    const ends = sessions
      .ids()
      .filter(id => id !== 'ada')
      .map(id => harness.recorded(id, 'ended'))
    expect(ends).toHaveLength(2)
    ada.cancel()
    await Promise.all(ends)
    expect(agents.list()).toEqual([ada])
  })

  test('is ended when it comes back and its parent has no use for it any more', async () => {
    const harness = await boot()
    const { root } = harness
    const ada = await root.agents.create({ id: 'ada' })
    const inChild = harness.event(
      'session/event',
      ({ sessionId, event }) => sessionId !== 'ada' && event.type === 'call'
    )
    ada.prompt('spawn: use wait 60000')
    await inChild
    await harness.dispose('agent-loop')
    root.sessions.open('ada').append('cancelled', { promptId: 'p1' })
    await harness.install('agent-loop')
    expect(root.agents.list().map(agent => agent.id)).toEqual(['ada'])
  })

  test('is refused for a call that is not open', async () => {
    const harness = await boot()
    const parent = { agentId: 'ada', callId: 'p1-0-0' }
    await expect(harness.root.agents.create({ id: 'child', parent })).rejects.toThrow(
      'the call that asks for it is not open'
    )
    expect(harness.root.sessions.ids()).toEqual([])
  })
})
