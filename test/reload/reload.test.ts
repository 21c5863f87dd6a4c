import { once } from 'node:events'
import { join } from 'node:path'
import { describe, expect, onTestFinished, test } from 'vitest'
import { type App, createApp, gate, seq } from '../fixtures/app.ts'

/** A service `agents`, a helper of its own, a dependent `loop`, and a sibling that nobody touches. */
const files = {
  'harness.ts': `
    import type { Context } from 'cordis'
    import Agents from './providers/agents.ts'
    import Loop from './providers/loop.ts'
    import Sibling from './providers/sibling.ts'
    export default function harness(ctx: Context) {
      ctx.plugin(Agents, { size: 1 })
      ctx.plugin(Loop)
      ctx.plugin(Sibling)
    }`,
  'providers/agents.ts': `
    import { Service, type Context } from 'cordis'
    import { BoundaryScope } from 'harness-hmr/scope'
    import { helper } from './helper.ts'
    export default class Agents extends Service {
      scope = new BoundaryScope<object>({ name: 'agents' })
      version = 'v1' + helper
      constructor(ctx: Context, config: unknown) {
        super(ctx, 'agents')
        seq.push(this.version + ' up ' + JSON.stringify(config))
        ctx.effect(() => async () => {
          await this.scope.dispose()
          seq.push(this.version + ' down')
        })
      }
    }`,
  'providers/helper.ts': `export const helper: string = ''`,
  'providers/loop.ts': `
    export default class Loop {
      static inject = ['agents']
      constructor(ctx: any) {
        seq.push('loop on ' + ctx.agents.version)
        ctx.effect(() => () => seq.push('loop off'))
      }
    }`,
  'providers/sibling.ts': `
    seq.push('sibling evaluated')
    export default function sibling() { seq.push('sibling up') }`,
  'providers/globals.d.ts': `declare const seq: string[]`
}

const v = (version: string) => (source: string) => source.replace(/version = '.*' \+/, `version = '${version}' +`)

describe('a saved provider', () => {
  test('is replaced in order: the dependent stops, the old one is gone, the new one is up, the dependent is back', async () => {
    const app = await createApp(files)
    await app.next('ready')
    seq.length = 0
    const report = await app.edit('providers/agents.ts', v('v2'))
    expect(seq).toEqual(['loop off', 'v1 down', 'v2 up {"size":1}', 'loop on v2'])
    expect(report).toMatchObject({
      outcome: 'reloaded',
      cause: [join(app.root, 'providers/agents.ts')],
      failures: [],
      providers: [{ name: 'agents', module: join(app.root, 'providers/agents.ts'), from: 1, to: 2, instances: 1 }]
    })
    expect(Object.keys(report.ms)).toEqual(['affected', 'stage', 'close', 'drain', 'disable', 'install'])
    expect(app.service('agents')['version']).toBe('v2')
  })

  test('is replaced when a helper that only it imports is saved', async () => {
    const app = await createApp(files)
    await app.next('ready')
    const report = await app.edit('providers/helper.ts', `export const helper: string = ' helped'`)
    expect(report.outcome).toBe('reloaded')
    expect(report.providers.map(({ name }) => name)).toEqual(['agents'])
    expect(app.service('agents')['version']).toBe('v1 helped')
  })

  test('leaves a sibling evaluated and applied once', async () => {
    const app = await createApp(files)
    await app.next('ready')
    await app.edit('providers/agents.ts', v('v2'))
    await app.edit('providers/agents.ts', v('v3'))
    expect(seq.filter(line => line.startsWith('sibling'))).toEqual(['sibling evaluated', 'sibling up'])
  })

  test('with the content that runs already is ignored', async () => {
    const app = await createApp(files)
    await app.next('ready')
    app.write('providers/agents.ts', files['providers/agents.ts'])
    expect(await app.next('reload')).toMatchObject({ outcome: 'ignored', reason: { code: 'same' } })
    expect(seq).not.toContain('v1 down')
  })

  test('waits for its open boundary, which a report counts, before its successor starts', async () => {
    const app = await createApp(files, { warnAfter: 10 })
    await app.next('ready')
    let finish = () => {}
    const operation = () =>
      new Promise<void>(resolve => (finish = resolve)).then(() => void seq.push('boundary closed'))
    const closed = app.service('agents')['scope'].run({}, operation)
    const reloading = app.edit('providers/agents.ts', v('v2'))
    expect((await app.next('slow')).providers).toEqual(['agents 1'])
    expect(app.lines.at(-1)).toContain('1 open boundary')
    expect(seq).not.toContain('v1 down')
    finish()
    await closed
    const report = await reloading
    expect(report.providers[0]?.boundaries).toEqual({ drained: 1, released: 0, abandoned: 0 })
    expect(seq.slice(-4)).toEqual(['boundary closed', 'v1 down', 'v2 up {"size":1}', 'loop on v2'])
  })

  test('is replaced at the deadline when its boundary stays open, which stays pending until it ends', async () => {
    const app = await createApp(files, { warnAfter: 10, deadline: 50 })
    await app.next('ready')
    let finish = () => {}
    void app.service('agents')['scope'].run({}, () => new Promise<void>(resolve => (finish = resolve)))
    const report = await app.edit('providers/agents.ts', v('v2'))
    expect(report.outcome).toBe('reloaded')
    expect(report.providers[0]?.boundaries.abandoned).toBe(1)
    expect(await app.next('audit')).toMatchObject({ outcome: 'pending', generation: 1 })
    finish()
    expect(await app.next('audit')).toMatchObject({ outcome: 'collected', generation: 1 })
  })
})

describe('bad code', () => {
  test.each([
    ['a syntax error', (source: string) => source.replace('scope = new', 'scope = = new'), 6, 'Unexpected token'],
    ['a throw at module level', (source: string) => `\n\nthrow new Error('module level')\n${source}`, 3, 'module level']
  ])('%s keeps the old version, and the next good save works', async (_, breaks, line, message) => {
    const app = await createApp(files)
    await app.next('ready')
    seq.length = 0
    const kept = await app.edit('providers/agents.ts', breaks)
    expect(kept).toMatchObject({ outcome: 'kept', providers: [{ name: 'agents', from: 1, to: 1 }] })
    expect(kept.error?.message).toContain(message)
    expect(kept.error?.location).toMatchObject({ file: join(app.root, 'providers/agents.ts') })
    expect(kept.error?.frame).toContain(`> `)
    expect(kept.error?.location?.line).toBe(line)
    expect(seq).toEqual([])
    expect(app.service('agents')['version']).toBe('v1')
    app.write('providers/agents.ts', v('v2')(files['providers/agents.ts']))
    expect((await app.next('reload')).outcome).toBe('reloaded')
    expect(app.service('agents')['version']).toBe('v2')
  })

  test('a throw in the constructor brings the old version back, with its place, and the next good save works', async () => {
    const app = await createApp(files)
    await app.next('ready')
    seq.length = 0
    const breaks = (source: string) =>
      v('v2')(source).replace(`seq.push(this.version + ' up`, `throw new Error('no way');seq.push(this.version + ' up`)
    const report = await app.edit('providers/agents.ts', breaks)
    expect(report).toMatchObject({
      outcome: 'rolled-back',
      error: { message: 'no way', step: 'install' },
      failures: []
    })
    expect(report.error?.location).toMatchObject({ file: join(app.root, 'providers/agents.ts'), line: 10 })
    expect(seq).toEqual(['loop off', 'v1 down', 'v1 up {"size":1}', 'loop on v1'])
    expect(app.service('agents')['version']).toBe('v1')
    app.write('providers/agents.ts', v('v3')(files['providers/agents.ts']))
    expect((await app.next('reload')).outcome).toBe('reloaded')
    expect(app.service('agents')['version']).toBe('v3')
  })

  test('a version that a dependent cannot run on is rolled back, and the dependent runs again', async () => {
    const strict = files['providers/loop.ts'].replace(
      `seq.push('loop on '`,
      `if (ctx.agents.version === 'v2') throw new Error('not v2');seq.push('loop on '`
    )
    const app = await createApp({ ...files, 'providers/loop.ts': strict })
    await app.next('ready')
    seq.length = 0
    const report = await app.edit('providers/agents.ts', v('v2'))
    expect(report).toMatchObject({
      outcome: 'rolled-back',
      error: { message: 'dependent "Loop" did not come back: not v2' }
    })
    expect(seq).toEqual(['loop off', 'v1 down', 'v2 up {"size":1}', 'v2 down', 'v1 up {"size":1}', 'loop on v1'])
  })

  test('a version without the exported plugin keeps the old one', async () => {
    const app = await createApp(files)
    await app.next('ready')
    const report = await app.edit('providers/agents.ts', source =>
      source.replace('export default class', 'export class')
    )
    expect(report.outcome).toBe('kept')
    expect(report.error?.message).toBe('provider "Agents": the new version does not export a plugin as "default"')
  })

  test('a missing import keeps the old version and names the import', async () => {
    const app = await createApp(files)
    await app.next('ready')
    const report = await app.edit('providers/agents.ts', source => source.replace('./helper.ts', './missing.ts'))
    expect(report.outcome).toBe('kept')
    expect(report.error?.message).toContain('missing.ts')
  })

  test('a harness that cannot boot says why, and boots with the next save', async () => {
    const app = await createApp({
      ...files,
      'harness.ts': files['harness.ts'].replace('ctx.plugin(Loop)', 'ctx.plugin(Loop')
    })
    const error = await app.next('failed')
    expect(error.location).toMatchObject({ file: join(app.root, 'harness.ts') })
    app.write('harness.ts', files['harness.ts'])
    expect(await app.next('ready')).toMatchObject({ providers: 3, failed: [] })
  })
})

describe('a change over two files', () => {
  const method = (name: string) => (source: string) =>
    source.replace('scope = new', `${name}() { return '${name}' }\n scope = new`)

  test('comes live with the second save, and another provider reloads meanwhile', async () => {
    const uses = (name: string) => (source: string) =>
      source.replace(/seq.push\('loop on '.*/, `seq.push(ctx.agents.${name}())`)
    const app = await createApp({
      ...files,
      'providers/agents.ts': method('first')(files['providers/agents.ts']),
      'providers/loop.ts': uses('first')(files['providers/loop.ts'])
    })
    await app.next('ready')
    const renamed = await app.edit('providers/agents.ts', source => source.replaceAll('first', 'second'))
    expect(renamed).toMatchObject({
      outcome: 'rolled-back',
      error: { message: expect.stringContaining('first is not a function') }
    })
    app.write('providers/sibling.ts', files['providers/sibling.ts'].replace('sibling up', 'sibling up again'))
    expect((await app.next('reload')).outcome).toBe('rolled-back')
    expect(await app.next('reload')).toMatchObject({ outcome: 'reloaded', providers: [{ name: 'sibling' }] })
    seq.length = 0
    const both = await app.edit('providers/loop.ts', source => source.replaceAll('first', 'second'))
    expect(both.outcome).toBe('reloaded')
    expect(both.providers.map(({ name }) => name).toSorted()).toEqual(['Loop', 'agents'])
    expect(seq.at(-1)).toBe('second')
  })

  test('a new helper that was broken comes live when it is mended', async () => {
    const app = await createApp({ ...files, 'providers/fresh.ts': `export const fresh = = 1` })
    await app.next('ready')
    const kept = await app.edit(
      'providers/agents.ts',
      source => `import { fresh } from './fresh.ts'\n${v('v2')(source)}\nseq.push(fresh)`
    )
    expect(kept.error?.location).toMatchObject({ file: join(app.root, 'providers/fresh.ts'), line: 1 })
    app.write('providers/fresh.ts', `export const fresh = 'mended'`)
    expect((await app.next('reload')).outcome).toBe('reloaded')
    expect(seq).toContain('mended')
  })
})

describe('what is broken', () => {
  /** Creates a file and lets everything that hears of it run. */
  async function create(app: App, file: string) {
    const added = once(app.server.watcher, 'add')
    app.write(file, 'export const missing = true')
    await added
    await app.harness.idle()
  }

  test('is not tried again for a file that the harness writes itself', async () => {
    const app = await createApp(files)
    await app.next('ready')
    await app.edit('providers/agents.ts', source => source + '\nthrow new Error("broken")')
    await create(app, 'sessions/one.jsonl')
    expect(app.harness.service.reports.map(({ outcome }) => outcome)).toEqual(['kept'])
    expect(app.harness.service.status.dirty).toEqual([join(app.root, 'providers/agents.ts')])
  })

  test('is tried again when it is saved with the same content', async () => {
    const app = await createApp(files)
    await app.next('ready')
    const broken = files['providers/agents.ts'] + '\nif (gate.broken) throw new Error("broken")'
    Object.assign(gate, { broken: true })
    onTestFinished(() => void Object.assign(gate, { broken: false }))
    expect((await app.edit('providers/agents.ts', broken)).outcome).toBe('kept')
    Object.assign(gate, { broken: false })
    app.write('providers/agents.ts', broken)
    expect((await app.next('reload')).outcome).toBe('reloaded')
  })

  test('is said to be mended when what runs is saved again', async () => {
    const app = await createApp(files)
    await app.next('ready')
    await app.edit('providers/agents.ts', source => source + ')')
    app.write('providers/agents.ts', files['providers/agents.ts'])
    expect(await app.next('reload')).toMatchObject({
      outcome: 'mended',
      providers: [{ name: 'agents', from: 1, to: 1 }]
    })
    expect(app.lines.at(-1)).toBe('[harness-hmr] mended agents 1  providers/agents.ts  unchanged')
  })

  test.each(['./missing.ts', './missing.js', './missing', '@/missing.ts'])(
    'for want of "%s" comes live when that is created',
    async specifier => {
      const app = await createApp(
        files,
        {},
        {
          plugins: [
            { name: 'alias', config: ({ root }) => ({ resolve: { alias: { '@': join(root!, 'providers') } } }) }
          ]
        }
      )
      await app.next('ready')
      const source = `import '${specifier}'\n${v('v2')(files['providers/agents.ts'])}`
      expect((await app.edit('providers/agents.ts', source)).outcome).toBe('kept')
      await create(app, 'providers/missing.ts')
      expect(await app.next('reload')).toMatchObject({ outcome: 'reloaded', providers: [{ name: 'agents' }] })
    }
  )

  test('at boot is tried again for what it wants, and not for what it writes', async () => {
    const app = await createApp({ ...files, 'harness.ts': `import './missing/index.ts'\n${files['harness.ts']}` })
    await app.next('failed')
    let failures = 0
    app.harness.listen({ failed: () => void failures++ })
    await create(app, 'harness.log')
    expect(failures).toBe(0)
    await create(app, 'missing/index.ts')
    expect(await app.next('ready')).toMatchObject({ providers: 3 })
  })
})

describe('importers that are left as they are', () => {
  test('see the new exports', async () => {
    const app = await createApp({
      ...files,
      'harness.ts': files['harness.ts'].replace(
        'export default',
        `import * as all from './providers/index.ts'\nexport const read = () => all.label\nexport default`
      ),
      'providers/index.ts': `export * from './agents.ts'`,
      'providers/agents.ts': `${files['providers/agents.ts']}\nexport let label = 'one'`
    })
    await app.next('ready')
    const { running } = app.harness
    const read = running!.host.exports(join(app.root, 'harness.ts'))!['read'] as () => string
    expect(read()).toBe('one')
    for (const label of ['two', 'three']) {
      await app.edit('providers/agents.ts', source => source.replace(/label = '.*'/, `label = '${label}'`))
      expect(read()).toBe(label)
    }
    await app.edit('providers/agents.ts', source =>
      source.replace(/label = '.*'/, `label = 'four'`).replace('super(', 'if (label) throw new Error(label); super(')
    )
    expect(read()).toBe('three')
  })

  test('are evaluated once, while a saved entry restarts the whole harness', async () => {
    const app = await createApp({ ...files, 'harness.ts': `seq.push('entry evaluated')\n${files['harness.ts']}` })
    await app.next('ready')
    await app.edit('providers/agents.ts', v('v2'))
    expect(seq.filter(line => line === 'entry evaluated')).toHaveLength(1)
    seq.length = 0
    const report = await app.edit('harness.ts', source => source.replace('size: 1', 'size: 2'))
    expect(report).toMatchObject({ outcome: 'restarted', reason: { code: 'entry' } })
    expect(seq).toContain('v2 up {"size":2}')
    expect(seq.indexOf('v2 down')).toBeLessThan(seq.indexOf('v2 up {"size":2}'))
  })
})

test('the same plugin applied three times has three instances, each with its own raw config, after a reload', async () => {
  const app = await createApp({
    'harness.ts': `
      import Job from './job.ts'
      export default function harness(ctx: any) {
        for (const name of ['a', 'b', 'c']) ctx.plugin(Job, { name })
      }`,
    'job.ts': `
      const schema = (value: any) => ({ value: { every: 1, ...value } })
      export default class Job {
        static Config = { '~standard': { version: 1, vendor: 'test', validate: schema } }
        constructor(ctx: any, config: object) {
          seq.push(JSON.stringify(config))
        }
      }`
  })
  await app.next('ready')
  seq.length = 0
  const report = await app.edit('job.ts', source => source.replace('every: 1', 'every: 2'))
  expect(report.providers[0]?.instances).toBe(3)
  expect(seq).toEqual(['a', 'b', 'c'].map(name => JSON.stringify({ every: 2, name })))
})

test('two saves of one file within 30 ms end with the second content', async () => {
  const app = await createApp(files)
  await app.next('ready')
  for (let i = 0; i < 5; i++) {
    app.write('providers/agents.ts', v(`draft${i}`)(files['providers/agents.ts']))
    const first = app.next('reload')
    await new Promise(resolve => setTimeout(resolve, 10 + 5 * i))
    app.write('providers/agents.ts', v(`final${i}`)(files['providers/agents.ts']))
    await first
    while (app.service('agents')['version'] !== `final${i}`) await app.next('reload')
  }
  await app.harness.idle()
  expect(app.service('agents')['version']).toBe('final4')
})

test('of two providers that are replaced together, the one whose async init fails rolls both back', async () => {
  const app = await createApp({
    ...files,
    'providers/loop.ts': `
      import { Service } from 'cordis'
      import { helper } from './helper.ts'
      export default class Loop {
        static inject = ['agents']
        constructor(ctx: any) { seq.push('loop on ' + ctx.agents.version + helper) }
        async [Service.init]() { await null; if (helper) throw new Error('init fails') }
      }`
  })
  await app.next('ready')
  const report = await app.edit('providers/helper.ts', `export const helper: string = '!'`)
  expect(report).toMatchObject({
    outcome: 'rolled-back',
    failures: [],
    error: { message: expect.stringContaining('init fails') }
  })
  expect(seq.slice(-2)).toEqual(['v1 up {"size":1}', 'loop on v1'])
})
