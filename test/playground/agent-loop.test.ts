import { describe, expect, test } from 'vitest'
import type { Agent } from '../../playground/providers/agents.ts'
import type { ToolExecution } from '../../playground/providers/tools.ts'
import { deferred, promptly, turn } from '../promptly.ts'
import { answers, boot, expectSound, type Harness } from './fixture.ts'

/** Offers a tool for as long as the harness has tools. */
async function offer(harness: Harness, name: string, execute: (execution: ToolExecution) => string | Promise<string>) {
  await harness.root.plugin({
    name: `tool ${name}`,
    inject: ['tools'],
    apply: ctx => void ctx.tools.register({ name, description: name, parameters: {}, execute })
  })
}

describe('the initiating agent', () => {
  test("is the driver's own across every await while many drivers run at once", async () => {
    const harness = await boot()
    const { agents } = harness.root
    const seen: [string, string][] = []
    await offer(harness, 'whoami', async ({ agent }) => {
      for (let i = 0; i < 5; i++) {
        seen.push([agents.requireInitiator().id, agent!.id])
        await turn()
      }
      return agents.requireInitiator().id
    })
    harness.root.on('agent/delta', ({ agent }) => void seen.push([agents.requireInitiator().id, agent.id]))
    const ids = ['ada', 'bo', 'cy', 'di', 'ed']
    const texts = await Promise.all(
      ids.map(async id => {
        const agent = await agents.create({ id })
        return promptly(agent.prompt('use whoami then whoami').answer(), 'answer')
      })
    )
    expect(texts).toEqual(ids.map(id => expect.stringContaining(`${id}; ${id}`)))
    expect(seen.length).toBeGreaterThan(50)
    for (const [ambient, explicit] of seen) expect(ambient).toBe(explicit)
    expect(agents.currentInitiator()).toBeUndefined()
  })

  test("is the creator during creation and setup, while the scope's own agent is the child", async () => {
    const harness = await boot()
    const { agents } = harness.root
    const parent = await agents.create({ id: 'parent' })
    const seen: unknown[] = []
    const child = await agents.withInitiator(parent, async () => {
      const created = await agents.create({
        id: 'child',
        async setup(ctx) {
          await turn()
          seen.push(agents.requireInitiator(), ctx.agent!.id)
        }
      })
      seen.push(agents.requireInitiator())
      return created
    })
    expect(seen).toEqual([parent, 'child', parent])
    expect(child.ctx.agent).toBe(child)
  })

  test('is the child in what the child does, and the parent again in the parent', async () => {
    const harness = await boot()
    const { agents } = harness.root
    await offer(harness, 'whoami', () => agents.requireInitiator().id)
    const ada = await agents.create({ id: 'ada' })
    const text = await promptly(ada.prompt('use whoami then whoami spawn: use whoami').answer(), 'answer')
    const [childId] = harness.root.sessions.ids().filter(id => id !== 'ada')
    expect(text).toContain(`ada; ada; About "use whoami": ${childId}`)
    expectSound(harness.record(childId!))
    const request = { agentId: 'ada', callId: childId!.slice('ada-'.length) }
    expect(harness.record(childId!)[0]!.data).toEqual({ agentId: childId, parent: request })
    expect(harness.record(childId!).find(event => event.type === 'prompt')!.data).toMatchObject({ from: request })
    expect(agents.list()).toEqual([ada])
  })

  test('is nobody in a tool that is executed directly', async () => {
    const harness = await boot()
    const { agents, tools } = harness.root
    await offer(harness, 'whoami', ({ agent }) =>
      String([agent, agents.currentInitiator()].every(who => who === undefined))
    )
    const { signal } = new AbortController()
    expect(await tools.execute({ agent: undefined, callId: 'direct', name: 'whoami', args: {}, signal })).toBe('true')
  })

  test('is still the right one in an abort path in the middle of teardown', async () => {
    const harness = await boot()
    const { agents } = harness.root
    let read: Agent | undefined
    await offer(
      harness,
      'hang',
      ({ signal }) =>
        new Promise((_, reject) => {
          signal.addEventListener('abort', () => {
            void turn().then(() => {
              read = agents.requireInitiator()
              reject(signal.reason)
            })
          })
        })
    )
    const ada = await agents.create({ id: 'ada' })
    const called = harness.recorded('ada', 'call')
    ada.prompt('use hang')
    await called
    await harness.dispose('agents')
    expect(read).toBe(ada)
  })
})

describe('the loop', () => {
  test('is inactive without the registry, and active again when it returns', async () => {
    const harness = await boot({}, ['agents'])
    const { root } = harness
    expect(root.get('agentLoop')).toBeUndefined()
    await harness.install('agents')
    await harness.settled()
    expect(await promptly((await root.agents.create({ id: 'ada' })).prompt('one').answer(), 'answer')).toContain('one')
    await harness.dispose('agents')
    expect(root.get('agentLoop')).toBeUndefined()
    await harness.install('agents')
    await harness.settled()
    expect(await promptly(root.agents.get('ada')!.prompt('two').answer(), 'answer')).toContain('two')
  })

  test('answers prompts in order, those that arrive in the middle of a turn, too', async () => {
    const harness = await boot()
    const ada = await harness.root.agents.create({ id: 'ada' })
    const called = harness.recorded('ada', 'call')
    ada.prompt('use wait 5')
    ada.prompt('two')
    await called
    await promptly(ada.prompt('three').answer(), 'answer')
    expectSound(harness.record('ada'))
    expect(answers(harness.record('ada')).map(text => /"(.*)"/.exec(text)![1])).toEqual(['use wait 5', 'two', 'three'])
  })

  test('puts a prompt on record before anything else, and the same prompt id once', async () => {
    const harness = await boot()
    const ada = await harness.root.agents.create({ id: 'ada' })
    ada.prompt('one', { promptId: 'mine' })
    expect(harness.record('ada').at(-1)).toMatchObject({ type: 'prompt', data: { promptId: 'mine', text: 'one' } })
    const answer = ada.prompt('one again', { promptId: 'mine' }).answer()
    expect(await promptly(answer, 'answer')).toContain('"one"')
    expectSound(harness.record('ada'))
  })

  test('records the failure of a tool as its result and a failing model as the end of the turn', async () => {
    const harness = await boot()
    await offer(harness, 'fail', () => Promise.reject(new Error('no luck')))
    const ada = await harness.root.agents.create({ id: 'ada' })
    expect(await promptly(ada.prompt('use fail').answer(), 'answer')).toContain('error: no luck')
    expect(await promptly(ada.prompt('use nothing').answer(), 'answer')).toContain(
      'error: tool "nothing" is not registered'
    )
    const generate = harness.root.llm.generate
    harness.root.llm.generate = () => {
      throw new Error('out of tokens')
    }
    await expect(promptly(ada.prompt('three').answer(), 'failure')).rejects.toThrow('out of tokens')
    harness.root.llm.generate = generate
    expect(await promptly(ada.prompt('four').answer(), 'answer')).toContain('four')
    expectSound(harness.record('ada'))
  })

  test('gives one signal to everything in a turn, and a new one to the next turn', async () => {
    const harness = await boot()
    const { root } = harness
    const signals: unknown[] = []
    await offer(harness, 'look', ({ signal }) => (signals.push(signal), 'seen'))
    root.prompt.contribute({ name: 'look', render: ({ signal }) => (signals.push(signal), '') })
    const ada = await root.agents.create({ id: 'ada' })
    await promptly(ada.prompt('use look then look').answer(), 'answer')
    const first = new Set(signals.splice(0))
    await promptly(ada.prompt('use look').answer(), 'answer')
    expect([first.size, new Set(signals).size, first.has(signals[0])]).toEqual([1, 1, false])
  })

  test('cancels the running prompt and a queued one, and goes on with the next', async () => {
    const harness = await boot()
    const ada = await harness.root.agents.create({ id: 'ada' })
    const called = harness.recorded('ada', 'call')
    const [one, two, three] = ['use wait 60000', 'two', 'three'].map(text => ada.prompt(text))
    const failed = expect(one!.answer()).rejects.toThrow('cancelled')
    await called
    expect(ada.cancel(two!.promptId)).toBe(true)
    expect(ada.cancel()).toBe(true)
    await failed
    expect(await promptly(three!.answer(), 'answer')).toContain('three')
    expect(ada.cancel()).toBe(false)
    expect(harness.record('ada').filter(event => event.type === 'cancelled')).toHaveLength(2)
    expect(harness.problems).toEqual([])
  })

  test('puts nothing on the record of a turn that was given up, although its tool still ends', async () => {
    const harness = await boot()
    const gate = deferred<string>()
    await offer(harness, 'gate', () => gate.promise)
    const ada = await harness.root.agents.create({ id: 'ada' })
    const called = harness.recorded('ada', 'call')
    ada.prompt('use gate')
    await called
    ada.cancel()
    const answer = ada.prompt('two').answer()
    gate.resolve('late')
    expect(await promptly(answer, 'answer')).toContain('two')
    expect(harness.record('ada').some(event => event.type === 'result')).toBe(false)
  })

  test('leaves nothing behind when setup fails', async () => {
    const harness = await boot()
    const { agents, sessions } = harness.root
    await expect(agents.create({ id: 'ada', setup: () => Promise.reject(new Error('not now')) })).rejects.toThrow(
      'not now'
    )
    expect([agents.list(), sessions.ids()]).toEqual([[], []])
    await agents.create({ id: 'ada' })
  })

  test('ends an agent from inside its own turn without waiting for itself', async () => {
    const harness = await boot()
    await offer(harness, 'quit', async ({ agent }) => (await agent!.end(), 'bye'))
    const ada = await harness.root.agents.create({ id: 'ada' })
    await expect(promptly(ada.prompt('use quit').answer(), 'the end')).rejects.toThrow('the agent has ended')
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

describe('what is registered through agent.ctx', () => {
  test('belongs to that agent alone and goes with it', async () => {
    const harness = await boot()
    const { agents, tools, prompt } = harness.root
    const [ada, bo] = [await agents.create({ id: 'ada' }), await agents.create({ id: 'bo' })]
    const heard: string[] = []
    ada.ctx.tools.register({ name: 'own', description: '', parameters: {}, execute: () => 'own' })
    ada.ctx.prompt.contribute({ name: 'own', render: () => 'own section' })
    ada.ctx.on('agent/delta', ({ agent }) => void heard.push(agent.id))
    ada.ctx.on('session/event', ({ sessionId }) => void heard.push(sessionId))
    const names = (agent?: Agent) => tools.list(agent).map(tool => tool.name)
    expect([names(ada).includes('own'), names(bo).includes('own'), names().includes('own')]).toEqual([
      true,
      false,
      false
    ])
    expect([await prompt.assemble({ agent: ada }), await prompt.assemble({ agent: bo })]).toEqual(['own section', ''])
    await Promise.all([ada, bo].map(agent => promptly(agent.prompt('hello').answer(), 'answer')))
    expect(new Set(heard)).toEqual(new Set(['ada']))
    await ada.end()
    expect(names(ada).includes('own')).toBe(false)
    expect(await prompt.assemble({ agent: ada })).toBe('')
  })
})

describe('teardown from inside a driver', () => {
  test('neither hangs nor writes on when a child disposes what its parent, who waits for it, runs on', async () => {
    for (const name of ['agents', 'agent-loop', 'tools'] as const) {
      const harness = await boot()
      const { agents } = harness.root
      const felled = deferred()
      await offer(harness, 'saw', async () => {
        await harness.fiber(name).dispose()
        felled.resolve()
        return 'fell'
      })
      // Unlike spawn, this tool does not care for its signal.
      await offer(harness, 'hire', async () => (await agents.create({ id: 'bo' })).prompt('use saw').answer())
      const [ada, cy] = [await agents.create({ id: 'ada' }), await agents.create({ id: 'cy' })]
      const unrelated = deferred<string>()
      await offer(harness, 'gate', () => unrelated.promise)
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
      await offer(harness, 'saw', async () => {
        await dispose()
        setImmediate(finished.resolve)
        return 'fell'
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
