/** Whatever code of the user's throws or hangs, and wherever: something serves, there is one report, and the next save works. */
import { rmSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, test } from 'vitest'
import { type Callback, CALLBACKS } from '../../plugin/guard/contain.ts'
import type { ReloadReport } from '../../plugin/index.ts'
import { type App, createApp, gate, seq } from '../fixtures/app.ts'
import { bump, composing, service } from '../fixtures/field-fixture.ts'
import { promptly, turn } from '../promptly.ts'

const files = {
  'harness.ts': composing('./agents.ts', './tools.ts'),
  'agents.ts': service('agents'),
  'tools.ts': service('tools')
}

const no = `throw new Error('no')`

interface Case {
  /** The provider as it runs first. */
  before?: string
  /** The provider as it is saved. */
  after?: string
  files?: Record<string, string>
  outcome: ReloadReport['outcome']
  /** What the report says of it, if anything. */
  says?: RegExp
}

const CASES: Record<Callback, Case> = {
  'harness-hmr/before-reload': {
    before: service('agents', `ctx.on('harness-hmr/before-reload', () => { ${no} })`),
    outcome: 'reloaded',
    says: /before-reload: no/
  },
  'harness-hmr/after-reload': {
    files: {
      'tools.ts': service('tools', `ctx.on('harness-hmr/after-reload', async () => { ${no} })`)
    },
    outcome: 'reloaded',
    says: /after-reload: no/
  },
  'import.meta.hot.dispose': {
    before: service('agents', '', `import.meta.hot.dispose(async () => { ${no} })`),
    outcome: 'reloaded',
    says: /no/
  },
  'import.meta.hot.accept': {
    before: `import { leaf } from './leaf.ts'\n${service('agents', 'seq.push(leaf)')}`,
    files: { 'leaf.ts': `export const leaf = 'leaf 1'\nimport.meta.hot.accept(() => { ${no} })` },
    outcome: 'reloaded'
  },
  'import.meta.hot.prune': {
    before: `import './leaf.ts'\n${service('agents')}`,
    files: { 'leaf.ts': `import.meta.hot.prune(() => { ${no} })` },
    outcome: 'reloaded',
    says: /no/
  },
  'AsyncLocalStorage.disable': {
    before: service(
      'agents',
      `storage.enterWith({})`,
      `import { AsyncLocalStorage } from 'node:async_hooks'
       class Stubborn extends AsyncLocalStorage { disable() { ${no} } }
       const storage = new Stubborn()`
    ),
    outcome: 'reloaded',
    says: /AsyncLocalStorage.disable: no/
  },
  'disposer of an effect': {
    before: service('agents', `ctx.effect(() => () => { ${no} })`),
    outcome: 'reloaded',
    says: /no/
  },
  plugin: { after: bump(service('agents', no)), outcome: 'rolled-back', says: /no/ },
  'label of a scope': {
    before: service(
      'agents',
      `scope.run(1, () => gate('boundary').promise)
       ctx.effect(() => () => scope.dispose())`,
      `import { BoundaryScope } from 'harness-hmr/scope'
       const scope = new BoundaryScope({ label: () => { ${no} } })`
    ),
    outcome: 'reloaded'
  },
  'getter of an export': {
    before: `${service('agents')}\nexport const db = new Proxy({}, { get() { ${no} } })`,
    outcome: 'reloaded'
  },
  'getter of an error': {
    after: bump(service('agents', `throw Object.defineProperty({}, 'message', { get() { ${no} } })`)),
    outcome: 'rolled-back'
  }
}

/** The newest content runs, a report per save, and nothing is left under way. */
async function expectAlive(app: App): Promise<void> {
  const source = bump(bump(service('agents')))
  app.write('agents.ts', source)
  while (app.service('agents')?.['version'] !== 3) await app.next('reload')
  await app.harness.idle()
  expect(app.harness.service.status).toMatchObject({ state: 'running', dirty: [] })
  expect((await app.edit('tools.ts', bump)).outcome).toBe('reloaded')
}

describe('any throw after close leaves something serving and one report, and the next save works:', () => {
  test.each([...CALLBACKS])('%s', async callback => {
    const { before = files['agents.ts'], after, files: more, outcome, says } = CASES[callback]
    const app = await createApp(
      { ...files, 'agents.ts': before, ...more },
      { grace: 1000, warnAfter: 20, deadline: 400 }
    )
    await app.next('ready')
    const saved = after ?? bump(before.replace(`import './leaf.ts'`, ''))
    const report = await app.edit('agents.ts', saved)
    gate('boundary').resolve()
    expect(report.outcome, JSON.stringify(report)).toBe(outcome)
    if (says) expect([report.error?.message, ...report.failures].join('\n')).toMatch(says)
    expect(app.service('agents')['version']).toBe(outcome === 'reloaded' ? 2 : 1)
    expect(app.harness.service.providers.map(({ name }) => name)).toContain('agents')
    await app.harness.idle()
    await expectAlive(app)
  })

  test.each(['close', 'drain', 'disable', 'install'] as const)('the engine itself, in %s', async step => {
    const app = await createApp(files)
    await app.next('ready')
    const { running } = app.harness
    const { fibers, host, ledger } = running!
    const breaks = <T extends object>(object: T, name: keyof T) => {
      Object.defineProperty(object, name, {
        configurable: true,
        value: () => {
          delete object[name]
          throw new Error('internals have changed')
        }
      })
    }
    if (step === 'close') breaks(fibers, 'services')
    let reads = 0
    if (step === 'drain')
      Object.defineProperty(running!, 'limits', {
        value: {
          ...running!.limits,
          get warnAfter() {
            // Close waits too.
            if (reads++ === 0) return 1000
            throw new Error('internals have changed')
          }
        }
      })
    if (step === 'disable') breaks(host.hot, 'dispose')
    if (step === 'install') breaks(fibers, 'succeed')
    void ledger
    const report = await app.edit('agents.ts', bump)
    expect(report).toMatchObject({ outcome: 'rolled-back', error: { step, message: 'internals have changed' } })
    expect(app.service('agents')['version']).toBe(1)
    expect(app.service('tools')['version']).toBe(1)
    expect(app.harness.service.status.state).toBe('running')
  })
})

describe('an evaluation that never ends', () => {
  const hangs = 'await new Promise(() => {})'

  test('is given up for a newer save of the same file, and holds up nothing', async () => {
    const app = await createApp(files)
    await app.next('ready')
    app.write('agents.ts', `gate('evaluating').resolve()\n${hangs}\n${bump(files['agents.ts'])}`)
    // Not the step alone: the file may be read after the step has begun.
    await promptly(gate('evaluating').promise, 'the evaluation')
    app.write('agents.ts', bump(files['agents.ts']))
    const [given, mended] = [await app.next('reload'), await app.next('reload')]
    expect(given).toMatchObject({ outcome: 'kept', error: { step: 'stage', evaluating: [`${app.root}/agents.ts`] } })
    expect(given.error!.message).toContain('"agents.ts" is still being evaluated')
    expect(mended).toMatchObject({ outcome: 'reloaded' })
    expect(app.service('agents')['version']).toBe(2)
  })

  test('in a helper is kept at the deadline, and a sibling reloads without it', async () => {
    const app = await createApp(
      { ...files, 'agents.ts': `import './leaf.ts'\n${files['agents.ts']}`, 'leaf.ts': '' },
      { deadline: 300 }
    )
    await app.next('ready')
    const report = await app.edit('leaf.ts', hangs)
    expect(report).toMatchObject({
      outcome: 'kept',
      error: { step: 'stage', location: { file: `${app.root}/leaf.ts` } }
    })
    expect(report.error!.evaluating).toEqual([`${app.root}/leaf.ts`, `${app.root}/agents.ts`])
    const sibling = await app.edit('tools.ts', bump)
    expect(sibling).toMatchObject({ outcome: 'reloaded', cause: [`${app.root}/tools.ts`] })
    expect((await app.edit('leaf.ts', 'export {}')).outcome).toBe('reloaded')
    expect(app.harness.service.status.dirty).toEqual([])
  })

  test('in the first boot is given up for a newer save, and the harness comes up', async () => {
    const app = await createApp({ ...files, 'agents.ts': `seq.push('hangs')\n${hangs}\n${files['agents.ts']}` })
    while (!seq.includes('hangs')) await turn()
    app.write('agents.ts', files['agents.ts'])
    await app.next('ready')
    expect(app.service('agents')['version']).toBe(1)
  })

  test('is no reason for the server not to close', async () => {
    const app = await createApp(files, { deadline: Infinity })
    await app.next('ready')
    app.write('agents.ts', `${hangs}\n${files['agents.ts']}`)
    while (app.harness.history.progress?.step !== 'stage') await turn()
    await promptly(app.close(), 'the server to close')
  })
})

test('a drain that would last forever ends with the server', async () => {
  const hanging = service('agents', `ctx.effect(() => () => gate('never').promise)`)
  const app = await createApp({ ...files, 'agents.ts': hanging }, { deadline: Infinity, warnAfter: 20 })
  await app.next('ready')
  app.write('agents.ts', bump(hanging))
  await app.next('slow')
  await promptly(app.close(), 'the server to close', 8000)
})

test('a file that a provider writes at each start is told by name and slowed, and others get their turn', async () => {
  const app = await createApp({
    ...files,
    'agents.ts': `
      import { writeFileSync } from 'node:fs'
      import { n } from './generated.ts'
      ${service('agents', `writeFileSync(import.meta.dirname + '/generated.ts', 'export const n = ' + (n + 1))`)}`,
    'generated.ts': 'export const n = 0'
  })
  await app.next('ready')
  const { message } = await app.next('error')
  expect(message).toContain('"generated.ts" was written during each of the last')
  app.write('tools.ts', bump(files['tools.ts']))
  for (;;) {
    const report = await app.next('reload')
    if (report.cause.includes(`${app.root}/tools.ts`)) break
  }
  expect(app.service('tools')['version']).toBe(2)
})

describe('what comes back', () => {
  const twice = composing('./tools.ts').replace(
    'ctx.plugin(P0)',
    `ctx.plugin(Bot, { token: 'good' })\n ctx.plugin(Bot, { token: 'bad' })`
  )
  const entry = `import Bot from './bot.ts'\n${twice}`
  const bot = (version: number) => `
    export default class Bot {
      constructor(ctx, { token }) {
        if (token === 'bad') throw new Error('bad token')
        seq.push(token + ' ${version} up')
        ctx.effect(() => () => void seq.push(token + ' ${version} down'))
      }
    }`

  test('is the instance that ran: one that had failed before may fail again', async () => {
    const app = await createApp({ 'harness.ts': entry, 'tools.ts': files['tools.ts'], 'bot.ts': bot(1) })
    await app.next('ready')
    const report = await app.edit('bot.ts', bot(2))
    expect(report).toMatchObject({
      outcome: 'reloaded',
      failures: ['bad token'],
      providers: [{ instances: 2, active: 1 }]
    })
    expect(seq).toEqual(['good 1 up', 'good 1 down', 'good 2 up'])
    expect((await app.edit('bot.ts', bot(3))).outcome).toBe('reloaded')
    expect(seq.at(-1)).toBe('good 3 up')
  })

  test('has a pool that works: what hot.dispose has closed is evaluated again', async () => {
    const pooled = service(
      'agents',
      'this.pool = pool',
      `const pool = { open: true }\nimport.meta.hot.dispose(() => void (pool.open = false))`
    ).replace('version = 1', 'version = 1; pool')
    const app = await createApp({ ...files, 'agents.ts': pooled })
    await app.next('ready')
    const report = await app.edit('agents.ts', bump(pooled).replace('this.pool = pool', no))
    expect(report.outcome).toBe('rolled-back')
    expect(app.service('agents')).toMatchObject({ version: 1, pool: { open: true } })
  })

  test('has the config in force, and a handle that was kept reaches the successor', async () => {
    const plugin = (version: number) => `
      export default function counter(ctx, config) {
        seq.push('${version} up with ' + config.n)
        ctx.effect(() => () => void seq.push('${version} down'))
      }`
    const app = await createApp({
      'harness.ts': `import counter from './counter.ts'\nexport default ctx => { globalThis.counter = ctx.plugin(counter, { n: 1 }) }`,
      'counter.ts': plugin(1)
    })
    await app.next('ready')
    const { counter } = globalThis as unknown as { counter: { update(config: object): unknown; dispose(): unknown } }
    await counter.update({ n: 2 })
    await app.edit('counter.ts', plugin(2))
    await counter.update({ n: 3 })
    await app.edit('counter.ts', plugin(3))
    await counter.dispose()
    expect(seq.filter(line => line.includes('up'))).toEqual([
      '1 up with 1',
      '1 up with 2',
      '2 up with 2',
      '2 up with 3',
      '3 up with 3'
    ])
    expect(seq.at(-1)).toBe('3 down')
  })
})

test('before-reload names the providers, every service that goes and what it runs on, and after-reload carries the report', async () => {
  const app = await createApp({
    ...files,
    'tools.ts': service('tools').replace('version = 1', `version = 1; static inject = ['agents']`),
    'harness.ts': files['harness.ts'].replace(
      'ctx.plugin(P0)',
      `ctx.on('harness-hmr/before-reload', ({ providers, services, uses }) =>
         void seq.push(providers.map(({ name, generation }) => name + ' ' + generation) + ' / ' + services.sort() + ' / ' + uses))
       ctx.on('harness-hmr/after-reload', report => void seq.push(report.outcome))
       ctx.plugin(P0)`
    )
  })
  await app.next('ready')
  seq.length = 0
  await app.edit('agents.ts', bump)
  expect(seq).toContain('agents 1 / agents,tools / ')
  expect(seq.at(-1)).toBe('reloaded')
  await app.edit('tools.ts', bump)
  expect(seq).toContain('tools 1 / tools / agents')
})

test('a provider that the entry drops is reported as removed', async () => {
  const app = await createApp(files)
  await app.next('ready')
  const report = await app.edit('harness.ts', composing('./agents.ts'))
  expect(report.outcome).toBe('restarted')
  expect(report.providers.find(({ name }) => name === 'tools')).toMatchObject({ from: 1, to: null, active: 0 })
  rmSync(join(app.root, 'tools.ts'))
})

test('a file that is saved beside two broken ones is live in the end, also when one of those is saved meanwhile', async () => {
  const app = await createApp({
    'harness.ts': composing('./agents.ts', './tools.ts', './llm.ts'),
    'agents.ts': service('agents'),
    'tools.ts': service('tools'),
    'llm.ts': service('llm')
  })
  await app.next('ready')
  await app.edit('agents.ts', bump(service('agents', no)))
  await app.edit('tools.ts', `${bump(service('tools'))}\n${no}`)
  let written = false
  const mend = () => {
    if (!written) app.write('agents.ts', bump(bump(service('agents'))))
    written = true
  }
  Object.assign(globalThis, { mend })
  app.write('llm.ts', bump(service('llm', '', 'mend()')))
  while (app.service('agents')['version'] !== 3) await app.next('reload')
  await app.harness.idle()
  expect([app.service('llm')['version'], app.service('tools')['version']]).toEqual([2, 1])
  expect(app.harness.service.status.dirty).toEqual([`${app.root}/tools.ts`])
})
