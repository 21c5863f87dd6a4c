import { describe, expect, test } from 'vitest'
import type { Tool } from '../../playground/providers/tools.ts'
import { deferred, promptly, turn } from '../promptly.ts'
import { answers, boot, expectSound, type Harness, reloaded } from './fixture.ts'

async function offer(harness: Harness, tool: Partial<Tool> & Pick<Tool, 'name' | 'execute'>): Promise<void> {
  await harness.root.plugin({
    name: `tool ${tool.name}`,
    inject: ['tools'],
    apply: ctx => void ctx.tools.register({ description: tool.name, parameters: {}, ...tool })
  })
}

/** A tool that hangs until its signal aborts; the second time it answers. */
function hanging(name: string, idempotent: boolean) {
  const tool = { name, idempotent, calls: 0, execute: hang }
  async function hang({ signal }: { signal: AbortSignal }): Promise<string> {
    if (++tool.calls > 1) return 'done'
    return new Promise((_, reject) => signal.addEventListener('abort', () => reject(signal.reason)))
  }
  return tool
}

const nobody = { providers: [], waitsFor: () => {} }
const parkedBy = (harness: Harness, services: string[], signal = new AbortController().signal, uses: string[] = []) =>
  promptly(harness.root.parallel('harness-hmr/before-reload', { ...nobody, services, uses, signal }), 'parking')

describe('before a reload that concerns the loop', () => {
  test('a running tool call finishes, its true result is recorded, and the turn goes on only after', async () => {
    const harness = await boot()
    const gate = deferred<string>()
    await offer(harness, { name: 'gate', execute: () => gate.promise })
    const ada = await harness.root.agents.create({ id: 'ada' })
    const called = harness.recorded('ada', 'call')
    const answer = ada.prompt('use gate then add 1 1').answer()
    await called
    const parked = parkedBy(harness, ['llm'])
    gate.resolve('true result')
    await parked
    expect(harness.record('ada').at(-1)).toMatchObject({ type: 'result', data: { output: 'true result' } })
    await harness.root.parallel('harness-hmr/after-reload', reloaded)
    expect(await promptly(answer, 'answer')).toContain('true result; 1 + 1 = 2')
    expectSound(harness.record('ada'))
  })

  test('the loop names each driver that it waits for, with the tool call that runs, until that has parked', async () => {
    const harness = await boot()
    const gate = deferred<string>()
    await offer(harness, { name: 'gate', execute: () => gate.promise })
    for (const id of ['ada', 'bo']) await harness.root.agents.create({ id })
    const called = harness.recorded('ada', 'call')
    const answer = harness.root.agents.get('ada')!.prompt('use gate').answer()
    await called
    const waiting = new Set<string>()
    const waitsFor = (driver: string, parked: Promise<unknown>, step?: string) => {
      waiting.add(`${driver}: ${step}`)
      void parked.then(() => waiting.delete(`${driver}: ${step}`))
    }
    const event = { ...nobody, waitsFor, services: ['llm'], uses: [], signal: new AbortController().signal }
    const parked = harness.root.parallel('harness-hmr/before-reload', event)
    await turn()
    expect([...waiting]).toEqual(['ada: tool call "gate"'])
    gate.resolve('done')
    await promptly(parked, 'parking')
    expect([...waiting]).toEqual([])
    await harness.root.parallel('harness-hmr/after-reload', reloaded)
    expect(await promptly(answer, 'answer')).toContain('done')
  })

  test('a tool that goes for a moment is missed by nobody, however long its disposer takes', async () => {
    const harness = await boot()
    const { disposed, tool } = { disposed: deferred(), tool: { name: 'echo', execute: async () => 'heard' } }
    const apply = (ctx: Harness['root']) => {
      ctx.tools.register({ description: '', parameters: {}, ...tool })
      ctx.effect(() => () => disposed.promise)
    }
    const owner = harness.root.plugin({ name: 'echo', inject: ['tools'], apply })
    await owner
    const ada = await harness.root.agents.create({ id: 'ada' })
    await parkedBy(harness, [], undefined, ['tools'])
    const gone = owner.dispose()
    const answer = ada.prompt('use echo').answer()
    // Time enough for a driver that does not wait to have called it.
    for (let n = 0; n < 100; n++) await turn()
    disposed.resolve()
    await gone
    await offer(harness, tool)
    await harness.root.parallel('harness-hmr/after-reload', reloaded)
    expect(await promptly(answer, 'answer')).toContain('heard')
    expectSound(harness.record('ada'))
  })

  test('a running stream finishes its step', async () => {
    const harness = await boot({ llm: { latency: 2 } })
    const ada = await harness.root.agents.create({ id: 'ada' })
    const streaming = harness.event('agent/delta')
    ada.prompt('use add 1 1')
    await streaming
    await parkedBy(harness, ['agents'])
    expect(harness.record('ada').at(-1)!.type).toBe('step')
  })

  test('a stream that is slower than the grace is cut off, and its step is run again', async () => {
    const harness = await boot()
    const ada = await harness.root.agents.create({ id: 'ada' })
    const streaming = harness.event('agent/delta')
    ada.prompt('slow but sure')
    await streaming
    const over = new AbortController()
    const parked = parkedBy(harness, ['agents'], over.signal)
    await turn()
    over.abort()
    await parked
    expect(harness.record('ada').at(-1)!.type).toBe('turn')
    const again = harness.event('agent/delta', ({ step }) => step === 0)
    await harness.root.parallel('harness-hmr/after-reload', reloaded)
    await again
    await promptly(ada.answer('p1'), 'answer')
    expectSound(harness.record('ada'))
  })

  test('a stream that ignores its signal is not taken for an answer, and is left at its next word', async () => {
    const harness = await boot()
    const { root } = harness
    const word = deferred()
    const seq: string[] = []
    const { generate } = root.llm
    root.llm.generate = async function* () {
      try {
        yield { type: 'text', text: 'half ' }
        await word.promise
        yield { type: 'text', text: 'and ' }
        seq.push('asked for more')
      } finally {
        seq.push('left')
      }
    }
    const ada = await root.agents.create({ id: 'ada' })
    const streaming = harness.event('agent/delta')
    const { promptId } = ada.prompt('hello')
    await streaming
    const parked = parkedBy(harness, ['agents'], AbortSignal.abort())
    word.resolve()
    await parked
    expect(seq).toEqual(['left'])
    expect(harness.record('ada').at(-1)!.type).toBe('turn')
    root.llm.generate = generate
    await root.parallel('harness-hmr/after-reload', reloaded)
    expect(await promptly(ada.answer(promptId), 'answer')).not.toContain('half')
    expectSound(harness.record('ada'))
  })

  test('a driver that is told to go on while it stops goes on', async () => {
    const harness = await boot()
    const { root } = harness
    const ada = await root.agents.create({ id: 'ada' })
    let answer!: Promise<string>
    root.once('agent/parked', () => {
      answer = ada.prompt('hello').answer()
      root.emit('harness-hmr/after-reload', reloaded)
    })
    await parkedBy(harness, ['agents'])
    expect(await promptly(answer, 'answer')).toContain('hello')
  })

  test('an idempotent call that outlasts the grace is made again, another one ends as interrupted', async () => {
    for (const idempotent of [true, false]) {
      const harness = await boot()
      const tool = hanging('hang', idempotent)
      await offer(harness, tool)
      const ada = await harness.root.agents.create({ id: 'ada' })
      const called = harness.recorded('ada', 'call')
      const { promptId } = ada.prompt('use hang then add 1 1')
      await called
      await harness.reload('agents', { grace: 10 })
      const text = await promptly(harness.root.agents.get('ada')!.answer(promptId), 'answer')
      expect(text).toContain(idempotent ? 'done' : 'error: tool "hang" was interrupted')
      expect(tool.calls).toBe(idempotent ? 2 : 1)
      expectSound(harness.record('ada'))
    }
  })

  test('a parent that waits for its child parks at once, and gets the answer once', async () => {
    const harness = await boot({ llm: { latency: 2 } })
    const { root } = harness
    const gate = deferred<string>()
    await offer(harness, { name: 'gate', execute: () => gate.promise })
    const ada = await root.agents.create({ id: 'ada' })
    const inChild = harness.event(
      'session/event',
      ({ sessionId, event }) => sessionId !== 'ada' && event.type === 'call'
    )
    ada.prompt('spawn: use gate')
    await inChild
    const parentParked = harness.event('agent/parked', ({ agent }) => agent === ada)
    const parked = parkedBy(harness, ['tools'])
    await parentParked
    gate.resolve('the child knows')
    await parked
    await harness.reload('tools', { announced: false })
    await root.parallel('harness-hmr/after-reload', reloaded)
    expect(await promptly(root.agents.get('ada')!.answer('p1'), 'answer')).toContain('the child knows')
    const childId = root.sessions.ids().find(id => id !== 'ada')!
    for (const id of ['ada', childId]) expectSound(harness.record(id))
    expect(answers(harness.record(childId))).toHaveLength(1)
    expect(harness.record(childId).at(-1)!.type).toBe('ended')
    expect(root.agents.list().map(agent => agent.id)).toEqual(['ada'])
  })

  test('a prompt that arrives meanwhile is on record and answered after', async () => {
    const harness = await boot()
    const ada = await harness.root.agents.create({ id: 'ada' })
    await parkedBy(harness, ['sessionLog'])
    const answer = ada.prompt('meanwhile').answer()
    await turn()
    expect(harness.record('ada').at(-1)!.type).toBe('prompt')
    await harness.root.parallel('harness-hmr/after-reload', reloaded)
    expect(await promptly(answer, 'answer')).toContain('meanwhile')
  })

  test('an agent that is created meanwhile starts after', async () => {
    const harness = await boot()
    await parkedBy(harness, ['llm'])
    const ada = await harness.root.agents.create({ id: 'ada' })
    const answer = ada.prompt('hello').answer()
    await turn()
    expect(harness.record('ada').at(-1)!.type).toBe('prompt')
    await harness.root.parallel('harness-hmr/after-reload', reloaded)
    await promptly(answer, 'answer')
  })
})

describe('who is concerned', () => {
  for (const [services, concerned] of [
    [['agents'], true],
    [['sessionLog'], true],
    [['agentLoop'], true],
    [['basicTools'], true],
    [['transport'], true],
    [['agentExecution'], false],
    [['somethingElse'], false],
    [[], false]
  ] as const) {
    test(`the loop ${concerned ? 'parks' : 'goes on'} when [${services.join()}] goes away`, async () => {
      const harness = await boot()
      const ada = await harness.root.agents.create({ id: 'ada' })
      await parkedBy(harness, [...services])
      ada.prompt('hello')
      await turn()
      expect(harness.record('ada').at(-1)!.type === 'prompt').toBe(concerned)
    })
  }
})
