import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { describe, expect, onTestFinished, test } from 'vitest'
import type { Agent } from '../../playground/providers/agents.ts'
import { deferred, promptly } from '../promptly.ts'
import { boot, expectSound, type Harness } from './fixture.ts'

/** A directory of its own, which `files` tells from others. */
function directory(name: string): string {
  const dir = mkdtempSync(join(tmpdir(), 'harness-cwd-'))
  onTestFinished(() => rmSync(dir, { recursive: true, force: true }))
  writeFileSync(join(dir, name), '')
  return dir
}

/** Passes on what the model is asked with; the model itself answers. */
function watchModel({ root }: Harness, see: (options: { signal: AbortSignal; sessionId: string }) => void): void {
  const { generate } = root.llm
  root.llm.generate = options => (see(options), generate.call(root.llm, options))
}

type Hang = (signal: AbortSignal) => Promise<undefined>

const look = { name: 'look', execute: () => 'looked' }

/** How to hang at each seam that a turn's signal goes to. */
const seams: Record<string, (harness: Harness, hang: Hang) => void | Promise<void>> = {
  'prompt assembly': async (harness, hang) => {
    await harness.offer(look)
    harness.root.prompt.contribute({ name: 'hang', render: async ({ signal }) => String(await hang(signal!)) })
  },
  model: async (harness, hang) => {
    await harness.offer(look)
    const { llm } = harness.root
    const { generate } = llm
    llm.generate = async function* (options) {
      await hang(options.signal)
      yield* generate.call(llm, options)
    }
  },
  tools: (harness, hang) =>
    harness.offer({ name: 'look', execute: async ({ signal }) => (await hang(signal)) ?? 'looked' }),
  approval: async (harness, hang) => {
    await harness.offer(look)
    harness.root.tools.approve({ name: 'hang', object: ({ signal }) => hang(signal) })
  }
}

describe('what an operation concerns is said', () => {
  test('to tools and prompt sections as the agent, to the model as the id of its session', async () => {
    const harness = await boot()
    const { root } = harness
    const seen: unknown[] = []
    await harness.offer({ name: 'look', execute: ({ agent }) => (seen.push(['tool', agent!.id]), '') })
    root.prompt.contribute({ name: 'look', render: ({ agent }) => (seen.push(['prompt', agent!.id]), '') })
    watchModel(harness, ({ sessionId }) => void seen.push(['model', sessionId]))
    await harness.ask('ada', 'use look')
    const step = [
      ['prompt', 'ada'],
      ['model', 'ada']
    ]
    expect(seen).toEqual([...step, ['tool', 'ada'], ...step])
  })

  test('to those who approve as the subject, which is not who happens to run, and is nobody for a direct call', async () => {
    const harness = await boot()
    const { agents, tools } = harness.root
    const [ada, bo] = [await agents.create({ id: 'ada' }), await agents.create({ id: 'bo' })]
    const subjects: (Agent | undefined)[] = []
    tools.approve({ name: 'look', object: ({ subject }) => void subjects.push(subject) })
    const { signal } = new AbortController()
    const call = { callId: 'c', name: 'add', args: { a: 1, b: 1 }, cwd: '.', signal }
    await agents.withInitiator(bo, () => tools.execute({ ...call, agent: ada }))
    await agents.withInitiator(bo, () => tools.execute({ ...call, agent: undefined }))
    await harness.ask('bo', 'use add 1 1')
    expect(subjects).toEqual([ada, undefined, bo])
  })

  test('as the cwd of each agent, on record and the same after a reload', async () => {
    const harness = await boot()
    const cwds = { ada: directory('apples'), bo: directory('berries') }
    for (const [id, cwd] of Object.entries(cwds)) await harness.root.agents.create({ id, cwd })
    const [ada, bo] = await Promise.all(['ada', 'bo'].map(id => harness.ask(id, 'use files')))
    expect([ada, bo]).toEqual([expect.stringContaining(': apples'), expect.stringContaining(': berries')])
    expect(harness.record('ada')[0]!.data).toEqual({ agentId: 'ada', cwd: cwds.ada })
    await harness.reload('agents')
    expect(await harness.ask('bo', 'use files')).toContain(': berries')
    expect(await harness.ask('ada', 'spawn: use files')).toContain(': apples')
    expect((await harness.root.agents.create({ id: 'cy' })).cwd).toBe(process.cwd())
  })

  test('in the records of a child as the request of its parent', async () => {
    const harness = await boot()
    await harness.ask('ada', 'spawn: hello')
    const id = harness.root.sessions.ids().find(name => name !== 'ada')!
    const request = { agentId: 'ada', callId: 'p1-0-0' }
    expect(harness.record(id)[0]!.data).toMatchObject({ agentId: id, parent: request })
    expect(harness.record(id)[1]!.data).toMatchObject({ from: request })
  })
})

describe('the signal of a turn', () => {
  test('is the same for prompt assembly, model, tools and approval, and a new one in the next turn', async () => {
    const harness = await boot()
    const { root } = harness
    const seen: [string, AbortSignal][] = []
    root.prompt.contribute({ name: 'look', render: ({ signal }) => (seen.push(['prompt', signal!]), '') })
    watchModel(harness, ({ signal }) => void seen.push(['model', signal]))
    await harness.offer({ name: 'look', execute: ({ signal }) => (seen.push(['tool', signal]), '') })
    root.tools.approve({ name: 'look', object: ({ signal }) => void seen.push(['approval', signal]) })
    const turns: AbortSignal[] = []
    for (let i = 0; i < 2; i++) {
      await harness.ask('ada', 'use look then look')
      const step = ['prompt', 'model', 'approval', 'tool']
      expect(seen.map(([seam]) => seam)).toEqual([...step, ...step, 'prompt', 'model'])
      expect(new Set(seen.map(([, signal]) => signal)).size).toBe(1)
      turns.push(seen[0]![1])
      seen.length = 0
    }
    expect(turns[0]).not.toBe(turns[1])
  })

  for (const seam of Object.keys(seams)) {
    test(`aborts at the seam "${seam}" when the turn is cancelled; the next turn is not touched`, async () => {
      const harness = await boot()
      const [reached, aborted] = [deferred<AbortSignal>(), deferred<Agent>()]
      let hangs = 0
      const hang: Hang = signal => {
        if (hangs++ > 0) return Promise.resolve(undefined)
        reached.resolve(signal)
        return new Promise((_, reject) => {
          signal.addEventListener('abort', () => {
            aborted.resolve(harness.root.agents.requireInitiator())
            reject(signal.reason)
          })
        })
      }
      await seams[seam]!(harness, hang)
      const ada = await harness.root.agents.create({ id: 'ada' })
      const refused = expect(ada.prompt('use look').answer()).rejects.toThrow('cancelled')
      const signal = await promptly(reached.promise, `the seam "${seam}"`)
      expect(signal.aborted).toBe(false)
      ada.cancel()
      await refused
      expect(await promptly(aborted.promise, 'the abort')).toBe(ada)
      expect(await harness.ask('ada', 'use look')).toContain('looked')
      expectSound(harness.record('ada'))
    })
  }
})
