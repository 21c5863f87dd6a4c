// Two agents at work in examples/dsh while everything below them is replaced: every message is answered once, transcripts are
// whole, ids stay, no turn fails, and what was retired is collected. Run in a copy of the example, `node proof.mjs ts|yml`.
import assert from 'node:assert/strict'
import { readFileSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { setTimeout as delay } from 'node:timers/promises'
import { stripVTControlCharacters } from 'node:util'
import { createLogger, createServer } from 'vite'
import { AsyncLocalStorage } from 'node:async_hooks'
import { queryObjects } from 'node:v8'

const root = import.meta.dirname
const mode = process.argv[2] ?? 'ts'
process.chdir(root)
process.env.SESSIONS = join(root, `.sessions-${mode}`)
rmSync(process.env.SESSIONS, { recursive: true, force: true })

const lines = []
const push = line => {
  lines.push(stripVTControlCharacters(line))
  if (process.env.VERBOSE) console.log(lines.at(-1))
}
const customLogger = { ...createLogger('info'), info: push, warn: push, warnOnce: push, error: push }
const server = await createServer({ root, mode, customLogger, server: { port: 0, host: '127.0.0.1' } })
// With its insides, as our own tests have it.
const harness = server.config.plugins.find(({ name }) => name === 'harness-hmr').api[Symbol.for('harness-hmr.harness')]
const ready = new Promise(resolve => harness.listen({ ready: resolve, failed: resolve }))
const reports = []
const audits = []
harness.listen({ reload: report => void reports.push(report), audit: report => void audits.push(report) })
await server.listen()
const { failed, message } = await ready
assert.equal(message, undefined)
assert.deepEqual(failed, [])

/** Resolves when something holds. */
async function until(what, holds, ms = 30_000) {
  for (const end = Date.now() + ms; ; await delay(20)) {
    const found = await holds()
    if (found) return found
    if (Date.now() > end) throw new Error(`not within ${ms} ms: ${what}\n${lines.slice(-30).join('\n')}`)
  }
}
const agents = () => harness.running?.fibers.root.get('agents')?.list() ?? []
/** How many agents there have to be. */
let count = 2
const both = () => until(`${count} agents`, () => agents().length === count && agents())
/** Both are in the middle of a turn. */
const atWork = () =>
  until(
    `${count} agents at work`,
    () => agents().length === count && agents().every(({ status }) => status === 'running')
  )
const file = name => join(root, name)
const read = name => readFileSync(file(name), 'utf8')

/** Saves a file while both agents work; resolves with the report. */
async function save(name, change) {
  await atWork()
  const from = reports.length
  const before = read(name)
  const after = change(before)
  assert.notEqual(after, before, `the edit of ${name} changes nothing`)
  writeFileSync(file(name), after)
  return until(`a report of ${name}`, () =>
    reports.slice(from).find(({ cause, reason }) => cause.some(path => path.endsWith(name)) && reason?.code !== 'same')
  )
}
const step = async (what, work) => {
  const from = lines.length
  await work()
  await both()
  const told = lines.slice(from).filter(line => /agents \d|reloaded|configured|kept|rolled/.test(line))
  console.log(
    `ok ${mode}: ${what}${told.length > 0 ? `\n     ${told.join('\n     ').replaceAll('[harness-hmr] ', '')}` : ''}`
  )
}
const outcome = (report, expected) =>
  assert.equal(report.outcome, expected, JSON.stringify(report.error ?? report.failures))

const tool = 'src/providers/calculator.ts'
const adapter = 'src/providers/simulated-llm.ts'
const loop = 'node_modules/@deepseek-ai/dsh-agent-loop/lib/index.js'
const agent = 'node_modules/@deepseek-ai/dsh-agent/lib/index.js'
const yml = mode === 'yml' ? read('cordis.yml') : undefined
const original = Object.fromEntries(
  [tool, adapter, loop, agent, 'src/providers/driver.ts', 'cordis.yml'].map(name => [name, read(name)])
)

const TEAM = `
  export const name = 'team'
  export function apply(ctx) {
    const create = () => ctx.get('agents').create({ sessionId: 'gamma-1', agentOptions: { provider: 'simulated', model: 'one' } })
    const timer = setTimeout(create, 100)
    ctx.effect(() => () => clearTimeout(timer))
  }`

try {
  // Later let go of: it would be what keeps the agents.
  let first = await both()
  let ids = first.map(({ id }) => id).toSorted()

  for (const [name, from, to] of [
    [tool, "'total'", "'sum'"],
    [adapter, "'v2'", "'v3'"]
  ]) {
    await step(`${name} is replaced, broken and mended, and the agents are the same`, async () => {
      outcome(await save(name, source => source.replace(from, to)), 'reloaded')
      outcome(await save(name, source => `${source}\nconst = 1`), 'kept')
      outcome(await save(name, source => source.replace('\nconst = 1', '\n// mended')), 'reloaded')
      assert.deepEqual(await both(), first)
    })
  }
  await step('a tool and an adapter whose ends take 600 ms are saved ten times', async () => {
    const slow = `\n  ctx.effect(() => () => new Promise(resolve => setTimeout(resolve, 600)))\n}\n`
    for (const name of [tool, adapter])
      outcome(await save(name, source => source.replace(/\}\s*(\/\/.*)?\s*$/, slow)), 'reloaded')
    for (let n = 0; n < 5; n++)
      for (const name of [tool, adapter]) outcome(await save(name, source => `${source}// ${n}\n`), 'reloaded')
    assert.deepEqual(await both(), first)
  })
  first = undefined
  for (const name of [loop, agent]) {
    await step(`${name} is replaced, broken and mended in place, and the agents are back`, async () => {
      outcome(await save(name, source => `${source}\nexport const edited = 1`), 'reloaded')
      await both()
      outcome(await save(name, source => `${source}\nconst = 1`), 'kept')
      outcome(await save(name, source => source.replace('\nconst = 1', '\nexport const mended = 1')), 'reloaded')
    })
  }
  if (yml) {
    const saved = yml.replace('agents:', 'maxParallelToolCalls: 3 # few\n    agents:')
    await step('a row is configured, and the file is as it was saved', async () => {
      outcome(await save('cordis.yml', () => saved), 'reloaded')
      await both()
      await delay(50)
      assert.equal(read('cordis.yml'), saved)
    })
    await step('an agent that a row has created is brought back as well', async () => {
      writeFileSync(file('src/providers/team.ts'), TEAM)
      outcome(await save('cordis.yml', () => `${saved}- { id: team, name: ./src/providers/team.ts }\n`), 'reloaded')
      count = 3
      ids = [...ids, 'gamma-1']
      outcome(await save(loop, source => `${source}\nexport const again = 1`), 'reloaded')
      await both()
    })
  } else {
    await step('fifty reloads of dsh-agent leave no AsyncLocalStorage', async () => {
      const storages = async () => (await harness.audit(), queryObjects(AsyncLocalStorage, { format: 'count' }))
      const before = await storages()
      for (let n = 0; n < 50; n++) {
        await atWork()
        const from = reports.length
        harness.invalidate([file(agent)])
        outcome(await until('a report', () => reports[from]), 'reloaded')
        lines.length = 0
      }
      await both()
      assert.equal(await storages(), before)
    })
  }

  // The driver gives no more work, and what it has given ends.
  await save('src/providers/driver.ts', source => source.replace('if (agent.inbox', 'continue\n      if (agent.inbox'))
  await until(
    'the end of all work',
    () => agents().length === count && agents().every(one => one.status === 'idle' && !one.inbox.hasPending)
  )
  assert.deepEqual((await both()).map(({ id }) => id).toSorted(), ids)
  for (const { id, session } of await both()) {
    const events = session.events
    const asked = new Set(
      events
        .filter(({ type }) => type === 'agent/inbox/spliced')
        .flatMap(({ data }) => data.inserted)
        .filter(({ source }) => source.kind === 'user')
        .map(({ id }) => id)
    )
    const told = events
      .filter(({ type, data }) => type === 'user/message' && data.source.kind === 'user')
      .map(({ data }) => data.id)
    const answers = events.filter(
      ({ type, data }) => type === 'assistant/message' && data.message.content.some(({ type }) => type === 'text')
    )
    const errors = events.filter(({ type, data }) => type === 'turn/end' && data.reason?.kind === 'error')
    const failures = events.filter(
      ({ type, data }) => type === 'tool/result' && data.message.content.some(({ isError }) => isError)
    )
    console.log(
      `   ${id}: ${asked.size} asked, ${told.length} told, ${answers.length} answered, ${errors.length} turns failed, ${failures.length} calls failed`
    )
    assert.ok(asked.size > 1)
    assert.equal(told.length, asked.size, 'every message is told once')
    assert.deepEqual(new Set(told), asked)
    assert.equal(answers.length, asked.size, 'every message is answered once')
    assert.equal(errors.length, 0)
    assert.equal(failures.length, 0)
  }
  await harness.audit()
  const left = [...harness.history.audits.values()].filter(({ outcome }) => outcome !== 'collected')
  assert.deepEqual(
    left.map(({ name, generation, retainers }) => `${name} ${generation}: ${JSON.stringify(retainers)}`),
    []
  )
  console.log(
    `ok ${mode}: ${audits.filter(({ outcome }) => outcome === 'collected').length} retired generations are collected`
  )
} catch (error) {
  console.log(`not ok ${mode}: ${error.stack}\n${lines.slice(-25).join('\n')}`)
  process.exitCode = 1
} finally {
  for (const [name, source] of Object.entries(original)) writeFileSync(file(name), source)
  await server.close()
}
