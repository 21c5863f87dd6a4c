import { describe, expect, test } from 'vitest'
import { consoleLog } from '../../playground/extras/console-log.ts'
import type { HostRequest } from '../../playground/providers/transport.ts'
import { promptly, turn } from '../promptly.ts'
import { boot, type Harness } from './fixture.ts'

const HEADER = 'X-Harness-Session-Id'

/** Everything by which somebody could be named. */
const IDENTITY = /agent|session|owner|identity|tenant|user|header|harness/i

/** What a model may try in order to be somebody else. */
const SPOOF = { sessionId: 'mallory', agent: 'mallory', agentId: 'mallory', owner: 'mallory', [HEADER]: 'mallory' }

/** A harness whose requests, printed lines and raw records are kept. */
async function watched() {
  const requests: HostRequest[] = []
  const memory = new Map<string, string[]>()
  const deliver = async (request: HostRequest) => (await turn(), requests.push(request), 'received')
  const harness = await boot({ transport: { deliver }, 'session-log': { memory } })
  const printed: string[] = []
  await harness.root.plugin(consoleLog, { write: (line: string) => void printed.push(line) })
  return { harness, requests, memory, printed }
}

/** Lets the model add to the arguments of each call; what it says stays its own. */
function corrupt({ root }: Harness): void {
  const { llm } = root
  const { generate } = llm
  llm.generate = async function* (options) {
    for await (const delta of generate.call(llm, options)) {
      yield delta.type === 'call' ? { ...delta, args: { ...delta.args, ...SPOOF, headers: SPOOF } } : delta
    }
  }
}

const stepsOf = (memory: Map<string, string[]>) =>
  [...memory.values()].flat().map(line => JSON.parse(line) as { type: string; data: { calls: { args: object }[] } })

describe('the host-aware transport', () => {
  test('derives the session header inside, for each of the agents that send at once', async () => {
    const { harness, requests } = await watched()
    const ids = ['ada', 'bo', 'cy']
    await Promise.all(ids.map(id => harness.ask(id, `use send /inbox from ${id}`)))
    expect(requests.toSorted((a, b) => (a.body < b.body ? -1 : 1))).toEqual(
      ids.map(id => ({ path: '/inbox', body: `from ${id}`, headers: { [HEADER]: id } }))
    )
  })

  test('derives it for a child as the child, and sends nothing for nobody', async () => {
    const { harness, requests } = await watched()
    await harness.ask('ada', 'spawn: use send /inbox hello')
    expect(requests[0]!.headers[HEADER]).toMatch(/^ada-/)
    await expect(harness.root.transport.send('/', '')).rejects.toThrow('no initiating agent is active')
  })

  test('has no identity field in the schema that the model sees, nor has any other tool', async () => {
    const { harness } = await watched()
    const { agents, llm, tools } = harness.root
    const seen: unknown[] = []
    const { generate } = llm
    llm.generate = options => (seen.push(options.tools), generate.call(llm, options))
    await harness.ask('ada', 'hello')
    expect(seen).toEqual([tools.list(agents.get('ada'))])
    const names = tools.list(agents.get('ada')).flatMap(tool => Object.keys(tool.parameters))
    expect(names).toEqual(expect.arrayContaining(['path', 'body', 'id', 'text']))
    expect(names.filter(name => IDENTITY.test(name))).toEqual([])
    expect(JSON.stringify(seen)).not.toContain(HEADER)
  })

  for (const kind of ['an honest model', 'a model that tries to set one']) {
    test(`leaves no identity field in the logged arguments and the persisted records of ${kind}`, async () => {
      const { harness, memory, printed } = await watched()
      if (kind !== 'an honest model') corrupt(harness)
      await harness.ask('ada', 'use send /inbox hello')
      await harness.ask('ada', 'use job-start 1 tea')
      const args = stepsOf(memory).flatMap(({ type, data }) =>
        type === 'step' ? data.calls.map(call => call.args) : []
      )
      expect(args).toEqual([
        { path: '/inbox', body: 'hello' },
        { ms: 1, text: 'tea' }
      ])
      expect(printed).toContain('ada  … send /inbox hello\n')
      const [created, ...rest] = memory.get('ada')!
      expect(JSON.parse(created!).data).toEqual({ agentId: 'ada' })
      const fields = rest.flatMap(line => [...line.matchAll(/"(\w[\w-]*)":/g)].map(([, name]) => name!))
      expect(fields.filter(name => IDENTITY.test(name))).toEqual([])
      expect([...rest, ...printed].join('')).not.toMatch(new RegExp(`${HEADER}|mallory`, 'i'))
    })
  }

  test('sends the same when the model tries to set an identity', async () => {
    const { harness, requests } = await watched()
    await harness.ask('ada', 'use send /inbox hello')
    corrupt(harness)
    await harness.ask('ada', 'use send /inbox hello')
    expect(requests[1]).toEqual(requests[0])
    expect(harness.root.agents.get('mallory')).toBeUndefined()
  })

  test('takes none from an argument of a direct call either', async () => {
    const { harness, requests } = await watched()
    const { agents, tools } = harness.root
    const ada = await agents.create({ id: 'ada' })
    const { signal } = new AbortController()
    const args = { path: '/', body: '', headers: SPOOF, ...SPOOF }
    const call = { agent: ada, callId: 'c', name: 'send', args, cwd: '.', signal }
    await promptly(
      agents.withInitiator(ada, () => tools.execute(call)),
      'the call'
    )
    expect(requests).toEqual([{ path: '/', body: '', headers: { [HEADER]: 'ada' } }])
  })
})
