import { homedir } from 'node:os'
import { mkdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, onTestFinished, test } from 'vitest'
import { WebSocketServer } from 'ws'
import { createApp, createFolder, type App } from '../fixtures/app.ts'
import { leaveNote } from '../../plugin/vite/address.ts'
import { builtPackage, run } from '../fixtures/built.ts'
import { bump } from '../fixtures/field-fixture.ts'

const { folder, cli } = builtPackage()

const harness = (...args: string[]) => run([cli, ...args], folder).ended

describe('the command', () => {
  test('tells its version, and what it can do', async () => {
    expect(await harness('--version')).toMatchObject({
      code: 0,
      stdout: expect.stringMatching(/^harness-hmr\/\d+\.\d+\.\d+ /)
    })
    const help = await harness('--help')
    expect(help.code).toBe(0)
    expect(help.stdout).toMatch(/\n {2}soak {4}.*\n {2}why {5}.*\n {2}status {2}.*\n {2}last {4}.*\n {2}report {2}/)
    const soak = await harness('soak', '--help')
    expect(soak.code).toBe(0)
    expect(soak.stdout).toContain('--max-heap-slope <bytes>')
    expect(await harness()).toMatchObject({ code: 1, stdout: help.stdout })
  })

  test.each<[string[], string]>([
    [['sok'], 'error unknown command "sok"\nSee `harness-hmr --help`\n'],
    [['soak', '--reload', 'a.ts', '--tmies', '3'], 'error Unknown option `--tmies`\nSee `harness-hmr --help`\n'],
    [['soak'], 'error option "--reload" is missing: the file to reload\n'],
    [['soak', '--reload', 'a.ts', '--reload', 'b.ts'], 'error option "--reload" is given 2 times\n'],
    [['soak', '--reload', 'a.ts', '--times', '0'], 'error option "--times" takes a whole number of 1 or more, got 0\n'],
    [
      ['soak', '--reload', 'a.ts', '--times', 'x'],
      'error option "--times" takes a whole number of 1 or more, got "x"\n'
    ],
    [
      ['soak', '--reload', 'a.ts', '--max-heap-slope=-1'],
      'error option "--max-heap-slope" takes a number of 0 or more, got -1\n'
    ],
    [
      ['soak', '--reload', 'a.ts', '--entry'],
      'error option `--entry <module>` value is missing\nSee `harness-hmr --help`\n'
    ],
    [['why', '--url', 'ftp://here'], 'error option "--url" takes an http address, got "ftp://here"\n']
  ])('refuses %j', async (args, stderr) => {
    expect(await harness(...args)).toEqual({ code: 1, signal: null, stdout: '', stderr })
  })
})

const files = {
  'harness.ts': `
    import Agents from './agents.ts'
    export default function harness(ctx: any) { ctx.plugin(Agents) }`,
  'history.ts': 'export const history: unknown[] = []',
  'agents.ts': `
    import { Service } from 'cordis'
    import { history } from './history.ts'
    export const version = 1
    export default class Agents extends Service {
      constructor(ctx: any) {
        super(ctx, 'agents')
        if (globalThis.planted) history.push(this)
      }
    }`
}

describe('harness-hmr why', () => {
  const url = ({ server }: App) => server.resolvedUrls!.local[0]!

  async function reloaded(planted: boolean, base = '/') {
    Object.assign(globalThis, { planted })
    onTestFinished(() => void delete (globalThis as { planted?: unknown }).planted)
    const app = await createApp(files, {}, { base })
    await app.next('ready')
    await app.edit('agents.ts', bump)
    await app.next('audit')
    return app
  }

  test('says that nothing is kept', async () => {
    const app = await reloaded(false)
    expect(await harness('why', '--url', url(app))).toMatchObject({ code: 0, stdout: 'nothing is kept\n', stderr: '' })
  }, 30_000)

  test('names what keeps a generation, also below a base that is given without its slash', async () => {
    const app = await reloaded(true, '/deep/')
    const { code, stdout, stderr } = await harness('why', '--url', url(app).replace(/\/$/, ''))
    expect({ code, stderr }).toEqual({ code: 0, stderr: '' })
    expect(stdout).toMatch(/^agents 1 is kept {2}searched in [\d.]+ s\n/)
    expect(stdout).toMatch(/module-level array "history".*history\.ts:1/)
  }, 60_000)

  test('prints one JSON object when asked', async () => {
    const app = await reloaded(true)
    const { stdout } = await harness('why', '--url', url(app), '--json')
    expect(JSON.parse(stdout)).toMatchObject({
      type: 'whys',
      root: app.root,
      whys: [{ type: 'why', name: 'agents', generation: 1, found: expect.arrayContaining([]) }]
    })
  }, 60_000)

  test('says where nobody answers, and where somebody else does', async () => {
    const other = new WebSocketServer({ port: 0, host: '127.0.0.1' })
    onTestFinished(() => other.close())
    await new Promise(resolve => other.once('listening', resolve))
    const { port } = other.address() as { port: number }
    const none = /^error no dev server with harness-hmr answers at .*\. Give its address, with its base, by --url\n$/
    const elsewhere = await harness('why', '--url', `http://127.0.0.1:${port}`)
    expect(elsewhere).toMatchObject({ code: 1, stdout: '', stderr: expect.stringMatching(none) })
    other.close()
    for (const client of other.clients) client.terminate()
    const nowhere = await harness('why', '--url', `http://127.0.0.1:${port}`)
    expect(nowhere).toMatchObject({ code: 1, stdout: '', stderr: expect.stringMatching(none) })
  }, 30_000)
})

describe('harness-hmr status and last', () => {
  const ask = async (cwd: string, ...args: string[]) => {
    const { code, stdout, stderr } = await run([cli, ...args], cwd).ended
    return { code, told: stdout ? JSON.parse(stdout) : stderr }
  }

  test('find the server of the project that they are called in, and say whether the newest content runs', async () => {
    const app = await createApp(files)
    await app.next('ready')
    expect(await ask(join(app.root, 'node_modules'), 'status')).toMatchObject({
      code: 0,
      told: { type: 'status', root: app.root, live: true, state: 'running', dirty: [], last: null }
    })
    expect(await ask(app.root, 'last')).toEqual({ code: 0, told: { live: true, last: null, retained: [] } })
    await app.edit('agents.ts', bump)
    expect(await ask(app.root, 'last')).toMatchObject({ code: 0, told: { live: true, last: { outcome: 'reloaded' } } })
    await app.edit('agents.ts', source => `${source}\nthrow new Error('broken')`)
    const file = join(app.root, 'agents.ts')
    expect(await ask(app.root, 'last')).toMatchObject({
      code: 1,
      told: { live: false, last: { outcome: 'kept', error: { message: 'broken', location: { file } } } }
    })
    expect(await ask(app.root, 'status')).toMatchObject({ code: 1, told: { live: false, dirty: [file] } })
    await app.server.close()
    expect(await ask(app.root, 'status')).toEqual({
      code: 1,
      told: 'error no dev server with harness-hmr runs here. Start it, or give its address by --url\n'
    })
  }, 60_000)

  test('`--wait` tells the outcome of a save, also when no watcher has told it', async () => {
    const app = await createApp(files)
    await app.next('ready')
    await app.server.watcher.close()
    for (const version of [2, 3]) {
      app.write('agents.ts', files['agents.ts'].replace('version = 1', `version = ${version}`))
      expect(await ask(app.root, 'last', '--wait')).toMatchObject({
        code: 0,
        told: { live: true, last: { id: version - 1, outcome: 'reloaded' } }
      })
    }
  }, 60_000)

  test('ask to choose where several run', async () => {
    const root = createFolder({})
    const notes = ['http://localhost:5173/', 'http://localhost:5174/'].map((url, i) =>
      leaveNote(join(root, `${i}`), url)
    )
    onTestFinished(() => notes.forEach(take => take()))
    const { code, told } = await ask(root, 'status')
    expect(code).toBe(1)
    expect(told).toMatch(/^error several dev servers run here: .*5173\/ \(.*5174\/ \(.*Choose one by --url\n$/)
  })
})

test('harness-hmr report tells versions and the last reloads, and no path of the project or the home', async () => {
  const app = await createApp(files)
  await app.next('ready')
  await app.edit('agents.ts', source => `${source}\nthrow new Error('secret')`)
  const { code, stdout } = await run([cli, 'report'], app.root).ended
  expect(code).toBe(0)
  expect(stdout).toMatch(/^- node \d+\.\d+\.\d+, /m)
  expect(stdout).toMatch(/^- cordis 4\./m)
  expect(stdout).toContain('"file": "<root>/agents.ts"')
  expect(stdout).toContain('"outcome": "kept"')
  expect(stdout).not.toContain(app.root)
  expect(stdout).not.toContain(homedir())
  expect(stdout).not.toContain('"frame"')
  await app.server.close()
  expect((await run([cli, 'report'], app.root).ended).stdout).toContain('No dev server with harness-hmr runs here.')
}, 60_000)

test('harness-hmr/testing proves in any runner that a provider is released', async () => {
  const app = join(folder, 'app')
  mkdirSync(app)
  for (const [file, source] of Object.entries(files)) writeFileSync(join(app, file), source)
  writeFileSync(
    join(app, 'agents.test.mjs'),
    `
    import assert from 'node:assert/strict'
    import { test } from 'node:test'
    import { createHarness, matchers } from 'harness-hmr/testing'
    test('agents survive a reload', async () => {
      const harness = await createHarness({ root: import.meta.dirname ?? '.', entry: 'harness.ts' })
      const edited = await harness.edit('agents.ts', source => source.replace('version = 1', 'version = 2'))
      assert.equal(edited.outcome, 'reloaded')
      const { pass, message } = await matchers.toHaveReleasedEverything(harness)
      assert.ok(pass, message())
      await harness.close()
    })`
  )
  const { code, stdout, stderr } = await run(['--test', 'agents.test.mjs'], app).ended
  expect(code, `${stdout}${stderr}`).toBe(0)
  expect(stdout).toMatch(/# pass 1|ℹ pass 1/)
}, 30_000)
