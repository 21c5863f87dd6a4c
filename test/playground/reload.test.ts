import { describe, expect, test } from 'vitest'
import type { Tool } from '../../playground/providers/tools.ts'
import { alive } from '../gc.ts'
import { deferred, promptly, turn } from '../promptly.ts'
import { answers, boot, expectSound, providerNames, type Harness } from './fixture.ts'

/** A tool that ends when the test says so, and does not care for signals. */
async function gateTool(harness: Harness) {
  const gate = { ...deferred<string>(), calls: 0 }
  const tool: Tool = {
    name: 'gate',
    description: 'Waits for the test.',
    parameters: {},
    execute: () => (gate.calls++, gate.promise)
  }
  await harness.root.plugin({ name: 'gate', inject: ['tools'], apply: ctx => void ctx.tools.register(tool) })
  return gate
}

/** One agent in a tool call, one streaming, one waiting for its child, one idle; the first three with more to do. */
async function busyHarness() {
  const harness = await boot({ llm: { latency: 2 } })
  const gate = await gateTool(harness)
  const { root } = harness
  const prompts: Record<string, string[]> = {
    ada: ['use gate then add 1 2', 'use note two', 'three'],
    bo: ['tell me a story that is long enough to be cut somewhere in the middle', 'use lookup owls'],
    cy: ['spawn: use wait 30 then lookup tides', 'use add 2 2'],
    di: []
  }
  const inTool = harness.recorded('ada', 'call')
  const streaming = harness.event('agent/delta', ({ agent, step }) => agent.id === 'bo' && step === 0)
  const waiting = harness.event(
    'session/event',
    ({ sessionId, event }) => sessionId.startsWith('cy-') && event.type === 'call'
  )
  for (const [id, texts] of Object.entries(prompts)) {
    const agent = await root.agents.create({ id })
    for (const text of texts) agent.prompt(text)
  }
  await Promise.all([inTool, streaming, waiting])
  return { harness, gate, prompts }
}

/** Everything that was asked has been answered once and in order, under the same ids. */
async function expectAllAnswered(harness: Harness, prompts: Record<string, string[]>): Promise<void> {
  const { agents, sessions } = harness.root
  for (const [id, texts] of Object.entries(prompts)) {
    const asked = harness.record(id).flatMap(event => (event.type === 'prompt' ? [event.data.promptId] : []))
    for (const promptId of asked) await promptly(agents.get(id)!.answer(promptId), `answer of ${id}`)
    expect(agents.get(id)!.session.id).toBe(id)
    expect(harness.record(id).filter(event => event.type === 'created')).toHaveLength(1)
    expectSound(harness.record(id))
    answers(harness.record(id)).forEach((text, index) => expect(text).toContain(texts[index]))
  }
  const children = sessions.ids().filter(id => id.startsWith('cy-'))
  expect(children).toHaveLength(1)
  expectSound(harness.record(children[0]!))
  expect(answers(harness.record('cy'))[0]).toContain('tides slow the day')
  expect(harness.problems).toEqual([])
}

for (const kind of ['announced', 'unannounced']) {
  describe(`an ${kind} reload`, () => {
    for (const name of providerNames) {
      test(`of ${name} in the middle of turns loses nothing and repeats nothing`, async () => {
        const { harness, gate, prompts } = await busyHarness()
        const kept = harness.root.agents
        const reloading = harness.reload(name, { announced: kind === 'announced' })
        await turn()
        gate.resolve('opened')
        await promptly(reloading, `reload of ${name}`)
        await expectAllAnswered(harness, prompts)
        expect(gate.calls).toBe(1)
        expect(answers(harness.record('ada'))[0]).toContain('opened; 1 + 2 = 3')
        if (name === 'agents') expect(() => kept.currentInitiator()).toThrow('agent initiator scope is disposed')
      })
    }
  })
}

test('every provider is reloaded in turn while agents work, and twice', async () => {
  const { harness, gate, prompts } = await busyHarness()
  gate.resolve('opened')
  for (const name of [...providerNames, ...providerNames]) {
    await harness.reload(name)
    const text = `use add 1 ${prompts.di!.length}`
    harness.root.agents.get('di')!.prompt(text)
    prompts.di!.push(text)
  }
  await expectAllAnswered(harness, prompts)
})

test('a resumed agent waits for a tool whose provider takes its time to load', async () => {
  const harness = await boot()
  const { root } = harness
  let calls = 0
  const execute: Tool['execute'] = ({ signal }) =>
    ++calls > 1
      ? 'done'
      : new Promise((_, reject) => {
          signal.addEventListener('abort', () => reject(signal.reason))
        })
  await root.plugin({
    name: 'late',
    inject: ['tools'],
    async apply(ctx) {
      for (let i = 0; i < 20; i++) await turn()
      ctx.tools.register({ name: 'late', description: '', parameters: {}, idempotent: true, execute })
    }
  })
  const ada = await root.agents.create({ id: 'ada' })
  const called = harness.recorded('ada', 'call')
  const { promptId } = ada.prompt('use late')
  await called
  await harness.reload('tools', { announced: false })
  expect(await promptly(root.agents.get('ada')!.answer(promptId), 'answer')).toContain('done')
})

test('an agent made again carries its own agent in its scope, and ordinary contexts still carry none', async () => {
  const harness = await boot()
  const before = await harness.root.agents.create({ id: 'ada' })
  await harness.reload('agents')
  const after = harness.root.agents.get('ada')!
  expect(after).not.toBe(before)
  expect(after.ctx.agent).toBe(after)
  expect(harness.root.agent).toBeUndefined()
  expect(before.session.events.map(event => event.type)).toEqual(['created'])
  expect(() => before.prompt('late')).toThrow('session "ada" is closed')
})

test('an answer is awaited across a reload', async () => {
  const harness = await boot({ llm: { latency: 2 } })
  const ada = await harness.root.agents.create({ id: 'ada' })
  const streaming = harness.event('agent/delta')
  const answer = ada.prompt('across').answer()
  await streaming
  await harness.reload('agent-loop')
  expect(await promptly(answer, 'the answer')).toContain('across')
})

test('an answer that is awaited when the harness ends is refused', async () => {
  const harness = await boot()
  const ada = await harness.root.agents.create({ id: 'ada' })
  const refused = expect(ada.prompt('use wait 60000').answer()).rejects.toThrow('the harness has ended')
  await turn()
  await harness.root.fiber.dispose()
  await promptly(refused, 'refusal')
})

test('an agent that is being created when the loop goes is not created, and does not run on', async () => {
  const harness = await boot()
  const { agents } = harness.root
  const setup = deferred()
  const created = expect(agents.create({ id: 'ada', setup: () => setup.promise })).rejects.toThrow(
    'agent loop is stopped'
  )
  await turn()
  const reloading = harness.reload('agent-loop', { announced: false })
  setup.resolve()
  await created
  await reloading
  expect([harness.root.agents.list(), harness.root.sessions.ids()]).toEqual([[], []])
})

test('an agent that has ended stays ended', async () => {
  const harness = await boot()
  const ada = await harness.root.agents.create({ id: 'ada' })
  await ada.end()
  await harness.reload('agent-loop')
  expect(harness.root.agents.list()).toEqual([])
  await expect(harness.root.agents.resume({ id: 'ada' })).rejects.toThrow('agent "ada" has ended')
})

test('a registry and a loop that were replaced under working drivers are collected', async () => {
  const harness = await boot({ llm: { latency: 1 } })
  const old: WeakRef<object>[] = []
  const remember = () => {
    const { agents, agentLoop } = harness.root
    old.push(new WeakRef(Reflect.get(agents, Symbol.for('cordis.original')) as object), new WeakRef(agentLoop))
  }
  for (const id of ['ada', 'bo']) await harness.root.agents.create({ id })
  for (let i = 0; i < 5; i++) {
    for (const id of ['ada', 'bo']) harness.root.agents.get(id)!.prompt('use add 1 2 then wait 2')
    remember()
    await harness.reload(i % 2 ? 'agent-loop' : 'agents', { announced: i < 3 })
  }
  expect(await alive(old)).toBe(0)
})

test('a loop whose tool never ends is replaced all the same, and what it does later counts for nothing', async () => {
  const harness = await boot()
  const gate = await gateTool(harness)
  const ada = await harness.root.agents.create({ id: 'ada' })
  const called = harness.recorded('ada', 'call')
  const { promptId } = ada.prompt('use gate then add 1 2')
  await called
  const abandoned = harness.fiber('agent-loop').dispose()
  await turn()
  await harness.install('agent-loop')
  const text = await promptly(harness.root.agents.get('ada')!.answer(promptId), 'the answer')
  expect(text).toContain('error: tool "gate" was interrupted')
  const { length } = harness.record('ada')
  gate.resolve('too late')
  await promptly(abandoned, 'the abandoned disposal')
  expect(harness.record('ada')).toHaveLength(length)
  expectSound(harness.record('ada'))
  expect(harness.root.agents.list().map(agent => agent.id)).toEqual(['ada'])
  expect(harness.problems).toEqual([])
})
