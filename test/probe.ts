/** What the tests of the dev command have in common: a provider that listens in, and how to read what it heard. */
import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect } from 'vitest'
import { Copy, type DevServer } from './dev-server.ts'

/** An event of a session, as the tests read it. */
export interface Recorded {
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
  ctx.on('agent/delta', ({ agent, promptId, step, text }) => send({ kind: 'delta', agent: agent.id, promptId, step, text }))
  ctx.on('harness-hmr/before-reload', () => send({ kind: 'parking' }))
  const commands: Record<string, (command: any) => unknown> = {
    prompt: ({ agent, text }) => ctx.get('agents')!.get(agent)!.prompt(text),
    release: () => {},
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

/** A copy of the playground with agents that nobody talks to but the test. */
export function createCopy(agents = ['ada', 'bo', 'cy']): Copy {
  const copy = new Copy()
  const residents = agents.map(id => `${id}: []`).join(', ')
  const config = `sessionsDir: here('./sessions'), agents: { ${residents} }, visits: 0, latency: 10, log: false`
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

/** A dev server is ready, or has done with a save. */
export const ready = /\[harness-hmr\] ready/
export const report = /\[harness-hmr\] (reloaded|restarted|kept|rolled-back)/

/** What the probe has heard of a session. */
export function recorded(server: DevServer, agent: string): Recorded[] {
  return server.messages
    .filter(({ kind, sessionId }) => kind === 'session' && sessionId === agent)
    .map(({ event }) => event as Recorded)
}

/** How many prompts of an agent are on record. */
export function prompted(server: DevServer, agent: string): number {
  return recorded(server, agent).filter(({ type }) => type === 'prompt').length
}

/** The ends of prompts. */
export function ends(events: Recorded[]): Recorded[] {
  return events.filter(({ type }) => type === 'answer' || type === 'failed' || type === 'cancelled')
}

/** What the probe answers to a command. */
export function answerTo(server: DevServer, kind: string): Promise<unknown> {
  return server
    .until(kind, () => server.messages.find(message => message['kind'] === kind))
    .then(({ answer }) => answer)
}

/** What is on record in the session file. */
export function onDisk(copy: Copy, agent: string): Recorded[] {
  const folder = join(copy.root, 'sessions')
  const file = readdirSync(folder).find(name => name.startsWith(`${agent}.`))!
  return readFileSync(join(folder, file), 'utf8')
    .trimEnd()
    .split('\n')
    .map(line => JSON.parse(line) as Recorded)
}

/** Sequence numbers without a gap, one answer per prompt in the order of the prompts, one result per tool call. */
export function checkTranscript(events: Recorded[], texts: string[]): void {
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
