import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtempSync, readFileSync, readdirSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { Context } from 'cordis'
import { build } from 'vite'
import { expect, onTestFinished, test } from 'vitest'
import harness, { type HarnessConfig } from '../../playground/harness.ts'
import type { SessionEvent } from '../../playground/providers/sessions.ts'
import { promptly } from '../promptly.ts'
import { answers, expectSound } from './fixture.ts'

const root = join(import.meta.dirname, '../..')
const quiet = { latency: 0, visits: 0, log: false }

function temporaryDirectory(): string {
  const dir = mkdtempSync(join(tmpdir(), 'harness-run-'))
  onTestFinished(() => rmSync(dir, { recursive: true, force: true }))
  return dir
}

/** Runs the entry until every resident has answered every prompt. */
async function runToTheEnd(config: HarnessConfig): Promise<Context> {
  const ctx = new Context()
  onTestFinished(() => promptly(ctx.fiber.dispose(), 'disposal'))
  const created = new Promise<void>(
    resolve =>
      void ctx.on('agent/driving', () => {
        if (Object.keys(config.agents!).every(id => ctx.agents.get(id))) resolve()
      })
  )
  await ctx.plugin(harness, config)
  await promptly(created, 'residents')
  for (const [id, prompts] of Object.entries(config.agents!)) {
    for (let i = 0; i < prompts.length; i++)
      await promptly(ctx.agents.get(id)!.answer(`first-${i}`), `answer of ${id}`, 6000)
  }
  return ctx
}

test('the entry composes a harness whose residents answer their first prompts, and seeds them once', async () => {
  const config = {
    ...quiet,
    sessionsDir: temporaryDirectory(),
    agents: { ada: ['use add 1 2', 'two'], bo: ['spawn: three'] }
  }
  const first = await runToTheEnd(config)
  const ids = first.sessions.ids()
  await first.fiber.dispose()
  const second = await runToTheEnd(config)
  expect(second.sessions.ids().toSorted()).toEqual(ids.toSorted())
  for (const id of ids) expectSound(second.sessions.read(id))
  expect(answers(second.sessions.read('ada'))).toHaveLength(2)
})

test('the entry rejects when its sessions are in use, and leaves nothing running', async () => {
  const dir = temporaryDirectory()
  writeFileSync(join(dir, '.lock'), `${process.ppid} token`)
  const ctx = new Context()
  await expect(ctx.plugin(harness, { ...quiet, sessionsDir: dir })).rejects.toThrow('in use by process')
  expect(ctx.get('agents')).toBeUndefined()
})

test('the default configuration works, visitor and log included', async () => {
  const lines: string[] = []
  const ctx = new Context()
  onTestFinished(() => promptly(ctx.fiber.dispose(), 'disposal'))
  const answered = new Promise<void>(
    resolve =>
      void ctx.on('session/event', ({ event }) => {
        lines.push(event.type)
        if (event.type === 'prompt' && event.data.promptId.startsWith('p')) resolve()
      })
  )
  await ctx.plugin(harness, { latency: 0, visits: 20, log: false })
  await promptly(answered, 'a visit')
  expect(ctx.agents.list().map(agent => agent.id)).toEqual(expect.arrayContaining(['ada', 'bo', 'cy']))
})

/** The harness as one file that plain Node runs. */
async function bundle(dir: string, config: HarnessConfig): Promise<string> {
  const entry = join(dir, 'run.ts')
  writeFileSync(
    entry,
    `
    import { Context } from 'cordis'
    import harness from ${JSON.stringify(join(root, 'playground/harness.ts'))}
    await new Context().plugin(harness, ${JSON.stringify(config)})
    setInterval(() => {}, 1000)`
  )
  await build({
    root: dir,
    configFile: false,
    logLevel: 'silent',
    resolve: {
      alias: { 'harness-hmr/scope': join(root, 'plugin/scope.ts'), cordis: join(root, 'node_modules/cordis') }
    },
    ssr: { noExternal: true },
    build: { ssr: entry, outDir: 'out', minify: false }
  })
  return join(dir, 'out/run.mjs')
}

const readRecord = (dir: string, id: string) =>
  readFileSync(join(dir, `${id}.jsonl`), 'utf8')
    .trim()
    .split('\n')
    .map(line => JSON.parse(line) as SessionEvent)

/** Starts `file` and kills it without a warning when it prints a line that contains `moment`. */
async function killAt(file: string, moment: string): Promise<void> {
  const child = spawn(process.execPath, [file], { stdio: ['ignore', 'pipe', 'inherit'] })
  onTestFinished(() => void child.kill('SIGKILL'))
  const seen = new Promise<void>(resolve => child.stdout.on('data', data => String(data).includes(moment) && resolve()))
  await promptly(seen, moment, 8000)
  child.kill('SIGKILL')
  await promptly(once(child, 'exit'), 'exit')
}

test('a harness that is killed twice in the middle of turns goes on where it was', { timeout: 20_000 }, async () => {
  const dir = temporaryDirectory()
  const sessionsDir = join(dir, 'sessions')
  const agents = {
    ada: ['use add 1 2 then wait 150 then add 3 4', 'use note something'],
    bo: ['tell me something that takes a few tokens to say', 'use lookup owls'],
    cy: ['spawn: use wait 150 then lookup tides then add 5 6']
  }
  const config = { ...quiet, latency: 5, log: true, sessionsDir, agents }
  const file = await bundle(dir, config)
  await killAt(file, '… wait 150')
  await killAt(file, 'lookup tides')
  expect(readdirSync(sessionsDir)).toContain('.lock')

  const ctx = await runToTheEnd({ ...config, log: false })
  for (const id of ctx.sessions.ids()) expectSound(ctx.sessions.read(id))
  expect(answers(ctx.sessions.read('ada'))[0]).toContain('1 + 2 = 3; waited 150 ms; 3 + 4 = 7')
  expect(answers(ctx.sessions.read('cy'))[0]).toContain(
    'waited 150 ms; tides slow the day by two milliseconds a century; 5 + 6 = 11'
  )
  expect(readRecord(sessionsDir, 'ada')).toEqual(ctx.sessions.read('ada'))
})
