import { describe, expect, test } from 'vitest'
import { createApp, gate, seq } from '../fixtures/app.ts'
import { bump, composing, service } from '../fixtures/field-fixture.ts'
import { promptly } from '../promptly.ts'

const files = {
  'harness.ts': composing('./agents.ts', './tools.ts'),
  'agents.ts': service('agents'),
  'tools.ts': service('tools')
}

const refusing = `version = 2
  static Config = { '~standard': { version: 1, vendor: 'test', validate: () => ({ issues: [{ message: 'no way' }] }) } }`

describe('a new version that fails after the old one is gone', () => {
  test.each([
    [
      'in an async init',
      (source: string) =>
        source.replace('version = 1', `version = 2\nasync [Service.init]() { await null; throw new Error('no way') }`)
    ],
    [
      'in a rejected effect of its init',
      (source: string) =>
        source.replace('version = 1', `version = 2;*[Service.init]() { yield () => {}; throw new Error('no way') }`)
    ],
    ['in its config schema', (source: string) => source.replace('version = 1', refusing)],
    [
      'on a service that is taken',
      (source: string) => bump(source).replace(`seq.push(`, `ctx.provide('tools', 1)\nseq.push(`)
    ]
  ])('%s gives its place back, and the next good save wins', async (_, breaks) => {
    const app = await createApp(files)
    await app.next('ready')
    const failed = await app.edit('agents.ts', breaks)
    expect(failed).toMatchObject({ outcome: 'rolled-back', failures: [], error: { step: 'install' } })
    expect(failed.error?.message).toMatch(/no way|invalid config|"tools" has been registered/)
    expect(app.service('agents')['version']).toBe(1)
    expect(seq.filter(line => line.startsWith('agents 1'))).toEqual(['agents 1 up', 'agents 1 down', 'agents 1 up'])
    expect(await app.edit('agents.ts', bump(bump(files['agents.ts'])))).toMatchObject({
      outcome: 'reloaded',
      failures: []
    })
    expect(app.service('agents')['version']).toBe(3)
    expect(seq.filter(line => line.startsWith('tools'))).toEqual(['tools 1 up'])
  })
})

test('a config that the new schema refuses is reported with what is wrong with it', async () => {
  const app = await createApp(files)
  await app.next('ready')
  const failed = await app.edit('agents.ts', source => source.replace('version = 1', refusing))
  expect(failed.error?.message).toContain('no way')
})

// `firstLine` in describe-error.ts takes what Oxc writes for a terminal.
test('a syntax error is reported without terminal colours', async () => {
  const app = await createApp(files)
  await app.next('ready')
  const kept = await app.edit('agents.ts', source => `${source}\n =`)
  expect(kept.error?.message).toBe('Unexpected token')
  expect(JSON.stringify(kept)).not.toMatch(/\\u001b/i)
})

describe('a saved entry that fails', () => {
  const breaks = (source: string) => source.replace('ctx.plugin(P1)', `throw new Error('no way')`)

  test('brings the whole old harness back, and the next good save restarts it', async () => {
    const app = await createApp(files)
    await app.next('ready')
    const failed = await app.edit('harness.ts', breaks)
    expect(failed).toMatchObject({ outcome: 'rolled-back', failures: [], error: { message: 'no way' } })
    expect([app.service('agents')['version'], app.service('tools')['version']]).toEqual([1, 1])
    expect((await app.edit('tools.ts', bump)).outcome).toBe('rolled-back')
    expect(await app.next('reload')).toMatchObject({ outcome: 'reloaded', providers: [{ name: 'tools' }] })
    app.write('harness.ts', composing('./tools.ts'))
    expect((await app.next('reload')).outcome).toBe('restarted')
    expect([app.service('agents'), app.service('tools')['version']]).toEqual([undefined, 2])
  })
})

describe('a provider that leaves something behind which its successor needs', () => {
  // As if in a router of the host's that outlives the provider.
  const routes = `const routes = ((gate('router') as any).routes ??= new Set())`
  const takes = `if (routes.has('/chat')) throw new Error('route "/chat" is taken')\nroutes.add('/chat')`

  const left = { ...files, 'agents.ts': service('agents', takes, routes) }

  test('is reported as a failure with the reason, and runs again with the save that mends it', async () => {
    const app = await createApp(left)
    await app.next('ready')
    const failed = await app.edit('agents.ts', bump)
    expect(failed).toMatchObject({ outcome: 'rolled-back', error: { message: 'route "/chat" is taken' } })
    expect(failed.failures).toEqual(['the old version did not come back: route "/chat" is taken'])
    expect(app.service('agents')).toBeUndefined()
    await app.edit('agents.ts', source => bump(source).replace(/if \(routes.*/, ''))
    expect(app.service('agents')['version']).toBe(3)
  })

  test('is mended alone, without a restart of the harness', async () => {
    const app = await createApp(left)
    await app.next('ready')
    await app.edit('agents.ts', bump)
    const mended = await app.edit('agents.ts', source => bump(source).replace(/if \(routes.*/, ''))
    expect(mended.outcome).toBe('reloaded')
    expect(seq.filter(line => line.startsWith('tools'))).toEqual(['tools 1 up'])
  })
})

describe('a provider that failed on its dependency', () => {
  const files = {
    'harness.ts': composing('./agents.ts', './loop.ts'),
    'agents.ts': service('agents'),
    'loop.ts': `export default class Loop {
      static inject = ['agents']
      constructor(ctx: any) {
        seq.push('loop runs on ' + ctx.agents.version)
        if (ctx.agents.version < 3) throw new Error('too old')
        ctx.effect(() => () => void seq.push('loop off'))
      }
    }`
  }

  test('runs once per reload of that dependency until it succeeds, and is no reason to roll back', async () => {
    const app = await createApp(files)
    expect(await app.next('ready')).toMatchObject({ failed: ['Loop'] })
    const loops = () => seq.filter(line => line.startsWith('loop'))
    expect(loops()).toEqual(['loop runs on 1'])
    expect((await app.edit('agents.ts', bump)).outcome).toBe('reloaded')
    await app.harness.running!.fibers.settled()
    expect(loops()).toEqual(['loop runs on 1', 'loop runs on 2'])
    expect((await app.edit('agents.ts', bump)).outcome).toBe('reloaded')
    await app.harness.running!.fibers.settled()
    expect(loops().slice(2)).toEqual(['loop runs on 3'])
    expect((await app.edit('agents.ts', bump)).outcome).toBe('reloaded')
    expect(loops().slice(3)).toEqual(['loop off', 'loop runs on 4'])
  })

  test('comes back with its own good save, and its dependency is not touched', async () => {
    const app = await createApp(files)
    await app.next('ready')
    const report = await app.edit('loop.ts', source => source.replace('< 3', '< 1'))
    expect(report).toMatchObject({ outcome: 'reloaded', failures: [] })
    expect(seq).toEqual(['agents 1 up', 'loop runs on 1', 'loop runs on 1'])
  })
})

test('a file that is saved cut off at any line unmounts nothing, and runs when it is whole', async () => {
  const app = await createApp(files)
  await app.next('ready')
  seq.length = 0
  const whole = bump(files['agents.ts'])
  const lines = whole.split('\n')
  for (let cut = 2; cut < lines.length - 1; cut++) {
    app.write('agents.ts', lines.slice(0, cut).join('\n'))
    expect(`${cut} ${(await app.next('reload')).outcome}`).toBe(`${cut} kept`)
  }
  expect(seq).toEqual([])
  app.write('agents.ts', whole)
  expect((await app.next('reload')).outcome).toBe('reloaded')
  expect(app.service('agents')['version']).toBe(2)
})

test('while a provider is broken, a save of another is tried with it and then alone, and only the second report is final', async () => {
  const app = await createApp(files)
  await app.next('ready')
  await app.edit('agents.ts', source => `${source}\n =`)
  const first = await app.edit('tools.ts', bump)
  expect(first).toMatchObject({ outcome: 'kept', retried: true })
  const second = await app.next('reload')
  expect(second).toMatchObject({ outcome: 'reloaded', cause: [`${app.root}/tools.ts`] })
  expect(second.retried).toBeUndefined()
})

test('while a provider is broken, the timers of the others go on', async () => {
  const ticks = `const timer = setInterval(() => gate('tick ' + this.ticks++).resolve(), 1)\nctx.effect(() => () => clearInterval(timer))`
  const app = await createApp({
    ...files,
    'tools.ts': service('tools', ticks).replace('version = 1', 'version = 1\nticks = 0')
  })
  await app.next('ready')
  const tools = app.service('tools')
  expect((await app.edit('agents.ts', source => source.replace('extends', 'extends extends'))).outcome).toBe('kept')
  await promptly(gate(`tick ${tools['ticks'] + 5}`).promise, 'five ticks')
  expect(
    (await app.edit('agents.ts', bump(files['agents.ts']).replace('super(', `throw new Error('no'); super(`))).outcome
  ).toBe('rolled-back')
  await promptly(gate(`tick ${tools['ticks'] + 5}`).promise, 'five more ticks')
  expect(app.service('tools')).toBe(tools)
})

describe('a name in a registry that takes each name once', () => {
  const registry = `
    const names = new Set()
    export function define(name) {
      if (names.has(name)) throw new Error('tool "' + name + '" is already registered')
      names.add(name)
      return () => void names.delete(name)
    }`
  const open = async (agents: string) => {
    const app = await createApp({
      'harness.ts': composing('./agents.ts'),
      'node_modules/registry/package.json': JSON.stringify({ name: 'registry', type: 'module', main: 'index.js' }),
      'node_modules/registry/index.js': registry,
      'agents.ts': agents
    })
    await app.next('ready')
    return app
  }

  test('that is taken at the level of a module keeps the old version, and the report says where it belongs', async () => {
    const head = `import { define } from 'registry'\nconst undo = define('turns')\nimport.meta.hot?.dispose(undo)`
    const app = await open(service('agents', '', head))
    const report = await app.edit('agents.ts', bump)
    expect(report).toMatchObject({
      outcome: 'kept',
      error: { message: 'tool "turns" is already registered', hint: expect.stringContaining('ctx.effect') }
    })
    expect(app.lines.find(line => line.includes('kept'))).toContain(report.error!.hint)
    expect(app.service('agents')['version']).toBe(1)
    const twice = await app.edit('agents.ts', source => `let twice = 1\nlet twice = 2\n${source}`)
    expect(twice).toMatchObject({
      outcome: 'kept',
      error: { message: expect.stringContaining('already been declared') }
    })
    expect(twice.error!.hint).toBeUndefined()
  })

  test('that is taken in the body of the plugin, with ctx.effect, is free for the new version', async () => {
    const app = await open(service('agents', `ctx.effect(() => define('turns'))`, `import { define } from 'registry'`))
    for (const version of [2, 3]) {
      expect(await app.edit('agents.ts', bump)).toMatchObject({ outcome: 'reloaded', failures: [] })
      expect(app.service('agents')['version']).toBe(version)
    }
  })
})
