import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, test } from 'vitest'
import { Copy, DevServer } from './dev-server.ts'
import { promptly } from './promptly.ts'

interface Recorded {
  seq: number
  type: string
  data: { promptId?: string; text?: string; callId?: string; output?: string; error?: string }
}

/**
 * Sits in the harness without injecting anything, so that no reload touches it: passes on what happens, gives prompts,
 * and keeps a reference to the registry over its reload.
 */
const PROBE = `
import type { Context } from 'cordis'
const original = Symbol.for('cordis.original')
export default function probe(ctx: Context) {
  const send = (message: object) => process.send?.(message)
  const raw = (name: string) => (ctx.get(name) as any)?.[original] ?? ctx.get(name)
  let kept: any
  ctx.on('session/event', ({ sessionId, event }) => send({ kind: 'session', sessionId, event }))
  ctx.on('agent/delta', ({ agent }) => send({ kind: 'delta', agent: agent.id }))
  const commands: Record<string, (command: any) => unknown> = {
    prompt: ({ agent, text }) => ctx.get('agents')!.get(agent)!.prompt(text),
    keep: () => (kept = raw('agents')),
    kept() {
      try {
        return kept.currentInitiator()
      } catch (error) {
        return (error as Error).message
      }
    },
    edition: ({ path }) => path.split('.').reduce((at: any, key: string) => at?.[key], { agents: raw('agents'), agentLoop: raw('agentLoop'), tools: raw('tools'), llm: raw('llm'), sessions: raw('sessions') }),
    state: () => ({ same: kept === raw('agents'), agents: ctx.get('agents')!.list().map(agent => [agent.id, agent.session.id]) })
  }
  const listen = (command: any) => {
    const answer = commands[command.do]!(command)
    send({ kind: command.do, answer: typeof answer === 'object' && command.do !== 'state' ? undefined : answer })
  }
  process.on('message', listen)
  ctx.effect(() => () => process.off('message', listen))
}
`

/** A copy of the playground with three agents that nobody talks to but the test. */
export function createCopy(): Copy {
  const copy = new Copy()
  const config = `sessionsDir: here('./sessions'), agents: { ada: [], bo: [], cy: [] }, visits: 0, latency: 10, log: false`
  copy.edit('vite.config.ts', source => source.replace(/config: \{[^}]*\}/, `config: { ${config} }`))
  copy.write('playground/probe.ts', PROBE)
  copy.edit('playground/harness.ts', source =>
    `import Probe from './probe.ts'\n${source}`.replace(
      '  ctx.plugin(AgentRegistry)',
      '  ctx.plugin(Probe)\n  ctx.plugin(AgentRegistry)'
    )
  )
  copy.edit('playground/providers/transport.ts', source => `process.send?.({ kind: 'evaluated' })\n${source}`)
  copy.edit('playground/providers/agents.ts', source =>
    source
      .replace(
        '    this.ctx = ctx\n',
        `    process.send?.({ kind: 'registry', is: 'constructed' })\n    this.ctx = ctx\n`
      )
      .replace(
        'yield () => initiators.dispose()',
        `yield async () => {
        await initiators.dispose()
        process.send?.({ kind: 'registry', is: 'disposed' })
      }`
      )
  )
  return copy
}

export const ready = /\[harness-hmr\] ready/
export const report = /\[harness-hmr\] (reloaded|restarted|kept|rolled-back)/

describe('the dev command', () => {
  test('gets ready, says what runs where, and ends within 5 s of Ctrl-C with nothing left', async () => {
    const server = new DevServer(new Copy(), ['npm', 'run', 'dev', '--', '--port', '0'])
    expect(await server.line(ready)).toMatch(/ready harness\.ts {2}\d+ providers {2}in \d+ ms/)
    expect(server.lines.join('\n')).toMatch(/Local: +http:\/\/localhost:\d+\//)
    expect(await server.line(/try/)).toContain('playground/providers/agents.ts')
    server.signal('SIGINT')
    await promptly(server.exited, 'exit after SIGINT', 5000)
    await promptly(groupEnded(server.process.pid!), 'nothing left running', 5000)
  })

  test('ends when a second Ctrl-C comes while a drain goes on', async () => {
    const copy = createCopy()
    copy.edit('playground/probe.ts', source =>
      source.replace(
        'let kept: any',
        `let kept: any\n  ctx.effect(() => () => new Promise(resolve => { send({ kind: 'draining' }); setTimeout(resolve, 60_000) }))`
      )
    )
    const server = new DevServer(copy)
    await server.line(ready)
    server.signal('SIGINT')
    await server.until('drain', () => server.messages.some(({ kind }) => kind === 'draining'))
    await new Promise(resolve => setTimeout(resolve, 300)) // A person's second Ctrl-C comes later than Vite's own.
    server.signal('SIGINT')
    expect(await promptly(server.exited, 'exit after the second SIGINT', 3000)).toEqual([130, null])
  })
})

describe('a save while three agents are in the middle of turns', () => {
  test.each([
    ['agents.ts', 'AgentRegistry', 'agents.edition'],
    ['agents/initiators.ts', 'Initiators', 'agents.initiators.edition'],
    ['agent-loop.ts', 'AgentLoop', 'agentLoop.edition'],
    ['tools.ts', 'ToolRuntime', 'tools.edition'],
    ['llm.ts', 'SimulatedModel', 'llm.edition'],
    ['sessions.ts', 'SessionStore', 'sessions.edition']
  ])('in %s runs the new code, and every prompt is answered once and in order', async (file, name, edition) => {
    const copy = createCopy()
    const server = new DevServer(copy)
    await server.line(ready)
    server.send({ do: 'keep' })
    const prompts = {
      ada: ['use wait 400 then add 2 3'],
      bo: ['tell me, slow, what owls do', 'use add 1 1'],
      cy: ['use lookup tides', 'use add 40 2', 'use note bread then lookup owls']
    }
    for (const agent of ['ada', 'bo'] as const)
      for (const text of prompts[agent]) server.send({ do: 'prompt', agent, text })
    await server.until('ada in a tool call', () => recorded(server, 'ada').some(({ type }) => type === 'call'))
    await server.until('bo streaming', () =>
      server.messages.some(({ kind, agent }) => kind === 'delta' && agent === 'bo')
    )
    for (const text of prompts.cy) server.send({ do: 'prompt', agent: 'cy', text })
    await server.until('cy with queued prompts', () => prompted(server, 'cy') === 3)

    const path = `playground/providers/${file}`
    copy.edit(path, source =>
      source.replace(new RegExp(`export class ${name}\\b[^{]*\\{\\n`), `$&  readonly edition = 'new'\n`)
    )
    const line = await server.line(report)
    expect(line).toMatch(/reloaded \S+ 1 → 2 {2}/)
    expect(line).toContain(file)
    server.send({ do: 'edition', path: edition })
    expect(await answerTo(server, 'edition')).toBe('new')

    await server.until('every prompt answered', () =>
      Object.entries(prompts).every(([agent, texts]) => ends(recorded(server, agent)).length === texts.length)
    )
    expect(server.lines.filter(printed => report.test(printed))).toHaveLength(1)
    for (const [agent, texts] of Object.entries(prompts)) checkTranscript(onDisk(copy, agent), texts)
    expect(server.messages.filter(({ kind }) => kind === 'evaluated')).toHaveLength(1)
    server.send({ do: 'state' })
    const isRegistry = edition.startsWith('agents')
    expect(await answerTo(server, 'state')).toEqual({
      same: !isRegistry,
      agents: [
        ['ada', 'ada'],
        ['bo', 'bo'],
        ['cy', 'cy']
      ]
    })
    if (!isRegistry) {
      expect(await server.line(/ (collected|retained) /)).toContain(' collected ')
      return
    }
    const lives = server.messages.filter(({ kind }) => kind === 'registry').map(({ is }) => is)
    expect(lives).toEqual(['constructed', 'disposed', 'constructed'])
    server.send({ do: 'kept' })
    expect(await answerTo(server, 'kept')).toBe('agent initiator scope is disposed')
  })
})

function recorded(server: DevServer, agent: string): Recorded[] {
  return server.messages
    .filter(({ kind, sessionId }) => kind === 'session' && sessionId === agent)
    .map(({ event }) => event as Recorded)
}

function prompted(server: DevServer, agent: string): number {
  return recorded(server, agent).filter(({ type }) => type === 'prompt').length
}

function ends(events: Recorded[]): Recorded[] {
  return events.filter(({ type }) => type === 'answer' || type === 'failed' || type === 'cancelled')
}

function answerTo(server: DevServer, kind: string): Promise<unknown> {
  return server
    .until(kind, () => server.messages.find(message => message['kind'] === kind))
    .then(({ answer }) => answer)
}

function onDisk(copy: Copy, agent: string): Recorded[] {
  const folder = join(copy.root, 'sessions')
  const file = readdirSync(folder).find(name => name.startsWith(`${agent}.`))!
  return readFileSync(join(folder, file), 'utf8')
    .trimEnd()
    .split('\n')
    .map(line => JSON.parse(line) as Recorded)
}

/** Sequence numbers without a gap, one answer per prompt in the order of the prompts, one result per tool call. */
function checkTranscript(events: Recorded[], texts: string[]): void {
  expect(events.map(({ seq }) => seq)).toEqual(events.map((_, index) => index))
  const prompts = events.filter(({ type }) => type === 'prompt')
  expect(prompts.map(({ data }) => data.text)).toEqual(texts)
  expect(ends(events).map(({ type, data }) => [type, data.promptId])).toEqual(
    prompts.map(({ data }) => ['answer', data.promptId])
  )
  ends(events).forEach(({ data }, index) => expect(data.text).toContain(`About "${texts[index]}"`))
  const calls = events.filter(({ type }) => type === 'call').map(({ data }) => data.callId)
  const results = events.filter(({ type }) => type === 'result')
  expect(results.map(({ data }) => data.callId)).toEqual([...new Set(calls)])
  expect(results.filter(({ data }) => data.error !== undefined)).toEqual([])
}

async function groupEnded(pid: number): Promise<void> {
  for (;;) {
    try {
      process.kill(-pid, 0)
    } catch {
      return
    }
    await new Promise(resolve => setTimeout(resolve, 20))
  }
}
