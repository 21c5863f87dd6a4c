/** Files that Node loads for a provider: workers, and what it requires. */
import { describe, expect, test } from 'vitest'
import { createApp, seq } from '../fixtures/app.ts'
import { bump, composing, service } from '../fixtures/field-fixture.ts'

const files = { 'harness.ts': composing('./agents.ts', './sibling.ts'), 'sibling.ts': service('sibling') }

describe('a worker that a provider starts by the URL of its file', () => {
  const worker = {
    ...files,
    'agents.ts': service(
      'agents',
      `
      const worker = new Worker(new URL('./job.mjs', import.meta.url))
      const said = new Promise(resolve => worker.once('message', resolve))
      ctx.provide('said', said)
      ctx.effect(() => () => worker.terminate())`,
      `import { Worker } from 'node:worker_threads'`
    ),
    'job.mjs': `import { parentPort } from 'node:worker_threads'\nimport { text } from './text.mjs'\nparentPort.postMessage('job 1 ' + text)`,
    'text.mjs': `export const text = 'text 1'`
  }
  const said = (app: Awaited<ReturnType<typeof createApp>>) => app.service<Promise<string>>('said')

  test('runs again with its provider when its file is saved, or what that imports', async () => {
    const app = await createApp(worker)
    await app.next('ready')
    expect(await said(app)).toBe('job 1 text 1')
    const sibling = app.service('sibling')
    expect(await app.edit('job.mjs', source => source.replace('job 1', 'job 2'))).toMatchObject({
      outcome: 'reloaded',
      providers: [{ name: 'agents' }]
    })
    expect(await said(app)).toBe('job 2 text 1')
    expect((await app.edit('text.mjs', `export const text = 'text 2'`)).outcome).toBe('reloaded')
    expect(await said(app)).toBe('job 2 text 2')
    expect(app.service('sibling')).toBe(sibling)
  })

  test('follows a file that it imports from now on, and none that it does not import any more', async () => {
    const app = await createApp({ ...worker, 'other.mjs': `export const text = 'other 1'` })
    await app.next('ready')
    await app.edit('job.mjs', source => source.replace('./text.mjs', './other.mjs'))
    expect((await app.edit('other.mjs', `export const text = 'other 2'`)).outcome).toBe('reloaded')
    expect(await said(app)).toBe('job 1 other 2')
    const before = app.harness.service.reports.length
    app.write('text.mjs', `export const text = 'unused'`)
    await app.edit('sibling.ts', bump)
    expect(app.harness.service.reports.slice(before).map(({ outcome }) => outcome)).not.toContain('kept')
    expect(seq.filter(line => line === 'agents 1 up')).toHaveLength(3)
  })

  test('is ignored when it is saved with the same content', async () => {
    const app = await createApp(worker)
    await app.next('ready')
    app.write('job.mjs', worker['job.mjs'])
    expect(await app.next('reload')).toMatchObject({ outcome: 'ignored', reason: { code: 'same' } })
  })
})

test('a data file that a provider reads and writes by its URL is not code: a save of it reloads nothing', async () => {
  const app = await createApp({
    ...files,
    'agents.ts': service(
      'agents',
      `writeFileSync(new URL('./state.json', import.meta.url), '{ "n": 2 }')`,
      `import { writeFileSync } from 'node:fs'`
    ),
    'state.json': `{ "n": 1 }`
  })
  await app.next('ready')
  app.write('state.json', `{ "n": 3 }`)
  expect((await app.edit('sibling.ts', bump)).providers.map(({ name }) => name)).toEqual(['sibling'])
  expect(seq.filter(line => line === 'agents 1 up')).toHaveLength(1)
})

describe('what a provider requires', () => {
  const requires = {
    ...files,
    'agents.ts': service(
      'agents',
      `ctx.provide('legacy', legacy)\nctx.provide('data', load('./data.json'))`,
      `import { createRequire } from 'node:module'\nconst load = createRequire(import.meta.url)\nconst legacy = load('./legacy.cjs')`
    ),
    'legacy.cjs': `exports.inner = require('./inner')\nexports.own = 1`,
    'inner.js': `module.exports = { n: 1 }`,
    'data.json': `{ "n": 1 }`,
    'package.json': `{ "type": "commonjs" }`
  }

  test('is the newest after a save of it, or of what that requires; what was not saved is the same object', async () => {
    const app = await createApp(requires)
    await app.next('ready')
    const data = app.service('data')
    expect((await app.edit('legacy.cjs', source => source.replace('own = 1', 'own = 2'))).outcome).toBe('reloaded')
    expect(app.service('legacy')).toMatchObject({ own: 2, inner: { n: 1 } })
    expect(app.service('data')).toBe(data)
    await app.edit('inner.js', `module.exports = { n: 2 }`)
    expect(app.service('legacy')).toMatchObject({ own: 2, inner: { n: 2 } })
    const legacy = app.service('legacy')
    await app.edit('data.json', `{ "n": 2 }`)
    expect(app.service('data')).toMatchObject({ n: 2 })
    expect(app.service('legacy')).toBe(legacy)
  })

  test('and throws keeps the old version, with the old content, and the next save of it works', async () => {
    const app = await createApp(requires)
    await app.next('ready')
    const legacy = app.service('legacy')
    expect(await app.edit('inner.js', `throw new Error('inner is broken')`)).toMatchObject({
      outcome: 'kept',
      error: { message: expect.stringContaining('inner is broken') }
    })
    // Together with what is broken, and then without it: it needs it all the same.
    expect((await app.edit('agents.ts', bump)).outcome).toBe('kept')
    expect((await app.next('reload')).outcome).toBe('kept')
    expect(app.service('legacy')).toBe(legacy)
    expect((await app.edit('inner.js', `module.exports = { n: 3 }`)).outcome).toBe('reloaded')
    expect(app.service('legacy')).toMatchObject({ inner: { n: 3 } })
    expect(seq.at(-1)).toBe('agents 2 up')
  })

  test('and makes the provider fail is what it was for the old version that comes back', async () => {
    const app = await createApp({
      ...requires,
      'agents.ts': requires['agents.ts'].replace(
        `ctx.provide('legacy'`,
        `if (legacy.own > 1) throw new Error('too new')\nctx.provide('legacy'`
      )
    })
    await app.next('ready')
    const legacy = app.service('legacy')
    const report = await app.edit('legacy.cjs', source => source.replace('own = 1', 'own = 2'))
    expect(report).toMatchObject({ outcome: 'rolled-back', failures: [] })
    expect(app.service('legacy')).toBe(legacy)
    expect((await app.edit('legacy.cjs', source => source.replace('own = 2', 'own = 0'))).outcome).toBe('reloaded')
    expect(app.service('legacy')).toMatchObject({ own: 0 })
  })

  test('and is not there yet keeps the old version, and is found when it is written', async () => {
    const app = await createApp(requires)
    await app.next('ready')
    const report = await app.edit('agents.ts', source => source.replace('./legacy.cjs', './next.cjs'))
    expect(report).toMatchObject({ outcome: 'kept' })
    app.write('next.cjs', `exports.own = 'next'`)
    expect((await app.next('reload')).outcome).toBe('reloaded')
    expect(app.service('legacy')).toMatchObject({ own: 'next' })
  })
})

test.skipIf(!process.features.require_module)(
  'an ES module that a provider requires is said, once, not to be followed',
  async () => {
    const app = await createApp({
      ...files,
      'agents.ts': service(
        'agents',
        '',
        `import { createRequire } from 'node:module'\nconst { n } = createRequire(import.meta.url)('./esm.mjs')`
      ),
      'esm.mjs': `export const n = 1`
    })
    await app.next('ready')
    expect((await app.edit('esm.mjs', `export const n = 2`)).failures).toEqual([
      expect.stringMatching(/^"esm\.mjs" is required.*Import it, or restart the dev server$/)
    ])
    expect((await app.edit('esm.mjs', `export const n = 3`)).failures).toEqual([])
  }
)

test('a provider that is a .cjs file reloads at each save, with its name and its config', async () => {
  const app = await createApp({
    'harness.ts': `import agents from './agents.cjs'\nexport default (ctx: any) => void ctx.plugin(agents, { n: 7 })`,
    'agents.cjs': `
      const helper = require('./helper.cjs')
      module.exports = function agents(ctx, config) {
        seq.push('agents 1 ' + config.n + ' ' + helper.n)
      }`,
    'helper.cjs': `exports.n = 1`
  })
  await app.next('ready')
  for (const n of [2, 3, 4]) {
    const report = await app.edit('agents.cjs', source => source.replace(/agents \d/, `agents ${n}`))
    expect(report).toMatchObject({ outcome: 'reloaded', providers: [{ name: 'agents', active: 1 }] })
    expect(seq.at(-1)).toBe(`agents ${n} 7 1`)
  }
  expect((await app.edit('helper.cjs', `exports.n = 2`)).outcome).toBe('reloaded')
  expect(seq.at(-1)).toBe('agents 4 7 2')
})
