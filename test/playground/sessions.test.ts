import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { describe, expect, onTestFinished, test } from 'vitest'
import { deferred, promptly, turn } from '../promptly.ts'
import { answers, boot, expectSound, type Harness, type ProviderName } from './fixture.ts'

const loopless: ProviderName[] = ['basic-tools', 'job-tools', 'agent-execution', 'transport', 'agent-loop']

function temporaryDirectory(): string {
  const dir = mkdtempSync(join(tmpdir(), 'harness-sessions-'))
  onTestFinished(() => rmSync(dir, { recursive: true, force: true }))
  return dir
}

const fileOf = (dir: string, id: string) => join(dir, `${id}.jsonl`)

function store(kind: 'files' | 'memory', dir = temporaryDirectory()): Promise<Harness> {
  return boot({ 'session-log': kind === 'files' ? { dir } : { memory: new Map() } }, loopless)
}

for (const kind of ['files', 'memory'] as const) {
  describe(`sessions in ${kind}`, () => {
    test('number their events from 0 without a gap and survive the reload of either provider', async () => {
      const harness = await store(kind)
      const { root } = harness
      let session = root.sessions.create('ada')
      session.append('created', { agentId: 'ada' })
      for (const name of ['sessions', 'session-log', 'sessions'] as const) {
        session.append('prompt', { promptId: name, text: '"quoted"\nand broken' })
        await harness.reload(name)
        expect(() => session.append('ended', {})).toThrow('session "ada" is closed')
        session = root.sessions.open('ada')
      }
      await session.flush()
      expect(session.events.map(event => event.seq)).toEqual([0, 1, 2, 3])
      expect(root.sessions.ids()).toEqual(['ada'])
      expect(root.sessions.read('ada').at(-1)!.data).toEqual({ promptId: 'sessions', text: '"quoted"\nand broken' })
    })

    test('have one writer: opening again closes the earlier handle, creating again is refused', async () => {
      const { root } = await store(kind)
      const first = root.sessions.create('ada')
      expect(() => root.sessions.create('ada')).toThrow('session "ada" exists')
      first.append('created', { agentId: 'ada' })
      const second = root.sessions.open('ada')
      expect(() => first.append('ended', {})).toThrow('session "ada" is closed')
      second.append('ended', {})
      expect(first.events.map(event => event.type)).toEqual(['created', 'ended'])
    })

    test('refuse ids that are no safe file names, and ids that are not on record', async () => {
      const { root } = await store(kind)
      for (const id of [
        '',
        '.',
        '..',
        '../ada',
        'a/b',
        'a\\b',
        'a\0b',
        '.lock',
        'a.',
        'con',
        'NUL.txt',
        'a b',
        'ä',
        'x'.repeat(200)
      ]) {
        expect(() => root.sessions.create(id), id).toThrow('the id is not a safe file name')
        expect(() => root.sessions.read(id), id).toThrow('the id is not a safe file name')
      }
      expect(root.sessions.read('nobody')).toEqual([])
      expect(() => root.sessions.open('nobody')).toThrow('session "nobody" is not on record')
    })

    test('tell a listener that fails from a write that fails', async () => {
      const harness = await store(kind)
      harness.root.on('session/event', () => {
        throw new Error('listener')
      })
      const session = harness.root.sessions.create('ada')
      session.append('created', { agentId: 'ada' })
      expect(session.events).toHaveLength(1)
      expect(harness.problems).toEqual([expect.stringContaining('listener')])
    })
  })
}

describe('a session file', () => {
  test('is only ever appended to, a line an event, and reaches the disk at the end of each turn', async () => {
    const dir = temporaryDirectory()
    const harness = await boot({ 'session-log': { dir } })
    const { sessionLog } = harness.root
    const seq: string[] = []
    const { flush } = sessionLog
    sessionLog.flush = async id => {
      await flush.call(sessionLog, id)
      seq.push('synced')
    }
    let before = ''
    harness.root.on('session/event', ({ event }) => {
      const now = readFileSync(fileOf(dir, 'ada'), 'utf8')
      expect(now).toBe(`${before}${JSON.stringify(event)}\n`)
      before = now
      if (event.type === 'turn' || event.type === 'answer') seq.push(event.type)
    })
    for (const text of ['one', 'use add 1 2', 'last']) await harness.ask('ada', text)
    await promptly(harness.root.agentLoop.park(), 'parking')
    expect(seq).toEqual([1, 2, 3].flatMap(() => ['turn', 'answer', 'synced']))
    expect(harness.problems).toEqual([])
  })

  test('with a torn last line loses that line, keeps it aside and says so', async () => {
    const dir = temporaryDirectory()
    const line = JSON.stringify({ seq: 0, time: 0, type: 'created', data: { agentId: 'ada' } }) + '\n'
    writeFileSync(fileOf(dir, 'ada'), line + '{"seq":1,"time":0,"ty')
    const harness = await store('files', dir)
    const session = harness.root.sessions.open('ada')
    expect(session.events).toHaveLength(1)
    expect(readFileSync(fileOf(dir, 'ada') + '.bad', 'utf8')).toBe('{"seq":1,"time":0,"ty\n')
    expect(harness.problems).toEqual([expect.stringContaining('the last line was torn')])
    session.append('ended', {})
    expect(readFileSync(fileOf(dir, 'ada'), 'utf8').split('\n')).toHaveLength(3)
    expect(harness.root.sessions.ids()).toEqual(['ada'])
  })

  test('with an unreadable line or a missing event is refused, and the other agents are resumed', async () => {
    const dir = temporaryDirectory()
    const event = (seq: number) => JSON.stringify({ seq, time: 0, type: 'created', data: { agentId: 'x' } }) + '\n'
    writeFileSync(fileOf(dir, 'broken'), event(0) + 'no json\n' + event(2))
    writeFileSync(fileOf(dir, 'gap'), event(0) + event(2))
    writeFileSync(fileOf(dir, 'good'), event(0))
    const harness = await boot({ 'session-log': { dir } })
    expect(() => harness.root.sessions.open('broken')).toThrow('session "broken": line 2 is unreadable')
    expect(() => harness.root.sessions.open('gap')).toThrow('session "gap": event 1 is missing')
    expect(harness.root.agents.list().map(agent => agent.id)).toEqual(['good'])
    expect(harness.problems).toHaveLength(2)
  })
})

describe('a directory of session files', () => {
  test('that a living process holds is refused, that of a dead one is taken over', async () => {
    const dir = temporaryDirectory()
    const other = spawn(process.execPath, ['-e', 'process.stdin.resume()'], { stdio: ['pipe', 'ignore', 'ignore'] })
    await once(other, 'spawn')
    writeFileSync(join(dir, '.lock'), `${other.pid} token`)
    await expect(store('files', dir)).rejects.toThrow(`in use by process ${other.pid}`)
    other.kill('SIGKILL')
    await promptly(once(other, 'exit'), 'exit')
    const harness = await store('files', dir)
    expect(readFileSync(join(dir, '.lock'), 'utf8')).toMatch(new RegExp(`^${process.pid} `))
    await harness.root.fiber.dispose()
    expect(existsSync(join(dir, '.lock'))).toBe(false)
  })

  test('is left complete and unlocked when the root is disposed in the middle of turns', async () => {
    const dir = temporaryDirectory()
    const first = await boot({ 'session-log': { dir }, llm: { latency: 2 } })
    const started = first.event('agent/delta', ({ agent }) => agent.id === 'cy')
    for (const id of ['ada', 'bo', 'cy']) {
      const agent = await first.root.agents.create({ id })
      agent.prompt('use add 1 2 then wait 5 then lookup owls')
      agent.prompt('two')
    }
    await started
    await promptly(first.root.fiber.dispose(), 'disposal')
    expect(existsSync(join(dir, '.lock'))).toBe(false)
    expect(first.problems).toEqual([])

    const second = await boot({ 'session-log': { dir } })
    for (const id of ['ada', 'bo', 'cy']) {
      const asked = second.record(id).filter(event => event.type === 'prompt')
      await promptly(second.root.agents.get(id)!.answer(asked.at(-1)!.data.promptId), 'answer')
      expectSound(second.record(id))
      expect(answers(second.record(id))[0]).toContain('1 + 2 = 3; waited 5 ms; owls')
    }
  })

  test('gets what a tool still gives while the root is being disposed, and is unlocked after', async () => {
    const dir = temporaryDirectory()
    const harness = await boot({ 'session-log': { dir } })
    const { root } = harness
    const gate = deferred<string>()
    root.tools.register({ name: 'gate', description: '', parameters: {}, execute: () => gate.promise })
    const ada = await root.agents.create({ id: 'ada' })
    const called = harness.recorded('ada', 'call')
    ada.prompt('use gate')
    await called
    const disposed = root.fiber.dispose()
    await turn()
    await turn()
    expect(existsSync(join(dir, '.lock'))).toBe(true)
    gate.resolve('just in time')
    await promptly(disposed, 'disposal')
    expect(readFileSync(fileOf(dir, 'ada'), 'utf8')).toContain('"output":"just in time"')
    expect(existsSync(join(dir, '.lock'))).toBe(false)
    expect(harness.problems).toEqual([])
  })

  test('never holds half a line behind a whole one', async () => {
    const dir = temporaryDirectory()
    const harness = await store('files', dir)
    const session = harness.root.sessions.create('ada')
    session.append('created', { agentId: 'ada' })
    const circular: Record<string, unknown> = {}
    circular.self = circular
    expect(() =>
      session.append('step', { promptId: 'p', text: '', calls: [{ callId: 'c', name: 'x', args: circular }] })
    ).toThrow()
    session.append('ended', {})
    expect(
      readFileSync(fileOf(dir, 'ada'), 'utf8')
        .trimEnd()
        .split('\n')
        .map(line => JSON.parse(line).seq)
    ).toEqual([0, 1])
  })
})
