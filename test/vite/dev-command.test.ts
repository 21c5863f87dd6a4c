import { describe, expect, test } from 'vitest'
import { Copy, DevServer } from '../fixtures/dev-server.ts'
import {
  answerTo,
  checkTranscript,
  createCopy,
  ends,
  onDisk,
  prompted,
  ready,
  recorded,
  report
} from '../fixtures/probe.ts'
import { promptly } from '../promptly.ts'
import { anyPort } from '../fixtures/port.ts'

describe('the dev command', () => {
  test('gets ready, says what runs where, and ends within 5 s of Ctrl-C with nothing left', async () => {
    const server = new DevServer(new Copy(), ['npm', 'run', 'dev', '--', '--port', String(anyPort())])
    expect(await server.line(ready)).toMatch(/ready harness\.ts {2}\d+ providers {2}in \d+ ms/)
    expect(server.lines.join('\n')).toMatch(/Local: +http:\/\/localhost:\d+\//)
    expect(await server.line(/try/)).toContain('playground/providers/agents.ts')
    server.signal('SIGINT')
    await promptly(server.exited, 'exit after SIGINT', 5000)
    await promptly(groupEnded(server.process.pid!), 'nothing left running', 5000)
  })

  test('says who is inactive when the harness loads no registry', async () => {
    const copy = createCopy()
    copy.edit('playground/harness.ts', source => source.replace('  ctx.plugin(AgentRegistry)\n', ''))
    const server = new DevServer(copy)
    await server.line(ready)
    expect(await server.line(/AgentLoop/)).toContain('provider "AgentLoop" is inactive: nobody provides "agents"')
    server.send({ do: 'edition', path: 'agentLoop' })
    expect(await answerTo(server, 'edition')).toBeUndefined()
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
