import type { Context } from 'cordis'
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

  test('is the creator while a session is loaded from its records', async () => {
    const harness = await boot()
    const { agents, sessionLog, sessions } = harness.root
    const parent = await agents.create({ id: 'parent' })
    sessionLog.append('bo', { seq: 0, time: 0, type: 'created', data: { agentId: 'bo' } })
    const seen: unknown[] = []
    const { read } = sessionLog
    sessionLog.read = id => (seen.push(agents.currentInitiator()), read.call(sessionLog, id))
    const setup = (ctx: Context) => void seen.push(agents.currentInitiator(), ctx.agent!.id)
    const bo = await agents.withInitiator(parent, () => agents.resume({ id: 'bo', setup }))
    expect(seen).toEqual([parent, parent, 'bo'])
    expect(bo.session.events).toBe(sessions.read('bo'))
    expect(await promptly(bo.prompt('hello').answer(), 'answer')).toContain('hello')
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
    expect(harness.record(childId!)[0]!.data).toEqual({
      agentId: childId,
      parent: request,
      cwd: process.cwd()
    })
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
    const call = { agent: undefined, callId: 'direct', name: 'whoami', args: {}, cwd: '.', signal }
    expect(await tools.execute(call)).toBe('true')
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
