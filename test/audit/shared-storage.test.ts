/** Storages that outlive the module that made them, and those that old code will not leave alone. */
import { describe, expect, onTestFinished, test } from 'vitest'
import type { AuditReport } from '../../plugin/index.ts'
import { type App, createApp, gate, seq } from '../fixtures/app.ts'
import { bump, composing, service } from '../fixtures/field-fixture.ts'

const TRACE = Symbol.for('test.trace')

/** P makes a storage, finds it where it is made already, and does not enter it. */
const maker = service(
  'maker',
  '',
  `import { AsyncLocalStorage } from 'node:async_hooks'
   const trace = ((globalThis as any)[Symbol.for('test.trace')] ??= new AsyncLocalStorage())`
)

/** A sibling goes on inside of it, and says what it reads. */
const looping = (start: string) =>
  service(
    'sibling',
    `
  const trace = (globalThis as any)[Symbol.for('test.trace')]
  const loop = async () => {
    await gate('tick').promise
    seq.push('sibling ' + version + ' reads ' + trace.getStore()?.id)
    gate('read').resolve()
  }
  ${start}
  ctx.effect(() => () => gate('tick').resolve())`
  )

const starts = {
  'a run that goes on': `void trace.run({ id: version }, loop)`,
  'an async context that `enterWith` has changed': `void Promise.resolve().then(() => { trace.enterWith({ id: version }); return loop() })`,
  'what a run that has ended left behind': `trace.run({ id: version }, () => { void loop() })`
}

async function boot(files: Record<string, string>, options = {}): Promise<App> {
  const slot = globalThis as Record<symbol, unknown>
  onTestFinished(() => void delete slot[TRACE])
  const app = await createApp({ 'harness.ts': composing('./maker.ts', './sibling.ts'), ...files }, options)
  await app.next('ready')
  return app
}

async function auditOf(app: App, name: string, generation: number): Promise<AuditReport> {
  for (;;) {
    const audit = await app.next('audit')
    if (audit.name === name && audit.generation === generation) return audit
  }
}

describe('a storage that modules share through globalThis', () => {
  test.each(Object.entries(starts))(
    'goes on for a sibling inside of %s when its maker is reloaded twice',
    async (_, start) => {
      const app = await boot({ 'maker.ts': maker, 'sibling.ts': looping(start) })
      await app.edit('maker.ts', bump)
      const first = await auditOf(app, 'maker', 1)
      expect(first).toMatchObject({ outcome: 'collected', forgotten: [], storages: { created: 0 } })
      expect(first.shared).toMatchObject([{ location: { file: `${app.root}/maker.ts`, line: 4 }, by: 'sibling 1' }])
      expect(app.lines.at(-1)).toContain('shared: maker.ts:4:')
      await app.edit('maker.ts', bump)
      expect(await auditOf(app, 'maker', 2)).toMatchObject({ outcome: 'collected', shared: [] })
      gate('tick').resolve()
      await gate('read').promise
      expect(seq).toContain('sibling 1 reads 1')
      expect(seq).not.toContain('sibling 1 reads undefined')
    }
  )

  test('is disabled when the last who has entered it retires, and collected when nobody has it', async () => {
    const app = await boot({ 'maker.ts': maker, 'sibling.ts': looping(starts['a run that goes on']) })
    await app.edit('maker.ts', bump)
    await auditOf(app, 'maker', 1)
    delete (globalThis as Record<symbol, unknown>)[TRACE]
    await app.edit('maker.ts', bump)
    await app.edit('sibling.ts', source => bump(source).replace('void trace.run({ id: version }, loop)', ''))
    expect(await auditOf(app, 'sibling', 1)).toMatchObject({
      outcome: 'collected',
      storages: { created: 1, collected: 1 },
      forgotten: [{ file: `${app.root}/maker.ts` }]
    })
  })

  test('becomes the next version of its maker when that enters it, and nobody has to let go of it', async () => {
    const entering = maker
      .replace('const trace', 'export const trace')
      .replace("super(ctx, 'maker')", "super(ctx, 'maker'); trace.run({}, () => {})")
    const app = await boot({ 'maker.ts': entering, 'sibling.ts': service('sibling') })
    await app.edit('maker.ts', bump)
    expect(await auditOf(app, 'maker', 1)).toMatchObject({ outcome: 'collected', shared: [{ by: 'maker 2' }] })
  })
})

test('a storage that old code enters again after it was disabled is collected once that has ended', async () => {
  const app = await boot(
    {
      'maker.ts': service(
        'maker',
        `void gate('late').promise.then(() => {
        storage.run({}, () => {})
        storage.enterWith(undefined)
        gate('entered').resolve()
      })`,
        `import { AsyncLocalStorage } from 'node:async_hooks'
       const storage = new AsyncLocalStorage()`
      ),
      'sibling.ts': service('sibling')
    },
    { audit: false }
  )
  await app.edit('maker.ts', bump)
  gate('late').resolve()
  await gate('entered').promise
  await app.harness.audit()
  expect(await auditOf(app, 'maker', 1)).toMatchObject({
    outcome: 'collected',
    storages: { created: 1, collected: 1 },
    forgotten: [{ file: `${app.root}/maker.ts` }]
  })
})

describe('what throws while notes are taken is told, and the operation of the user goes on:', () => {
  const inside = {
    'a resource of his own with a getter that throws': `
      class Odd extends AsyncResource { get _repeat(): never { throw new Error('not for you') } }
      const made = new Odd('Timeout').runInAsyncScope(() => 'made')`,
    'a message of his own on a channel of Node': `
      channel('child_process').publish({})
      const made = 'made'`,
    'an `Error.stackTraceLimit` that refuses to be set': `
      const before = Object.getOwnPropertyDescriptor(Error, 'stackTraceLimit')!
      const storage = new AsyncLocalStorage()
      const listener = () => {}
      Object.defineProperty(Error, 'stackTraceLimit', { get: () => 10, set() { throw new Error('not for you') }, configurable: true })
      let made
      try {
        process.on('SIGUSR2', listener).off('SIGUSR2', listener)
        made = new AsyncLocalStorage().run('ma', () => storage.run('de', () => 'ma' + storage.getStore()))
        storage.enterWith(undefined)
      } finally {
        Object.defineProperty(Error, 'stackTraceLimit', before)
      }`
  }
  test.each(Object.entries(inside))('%s', async (_, body) => {
    const head = `
      import { AsyncLocalStorage, AsyncResource } from 'node:async_hooks'
      import { channel } from 'node:diagnostics_channel'`
    const app = await createApp(
      { 'harness.ts': composing('./maker.ts'), 'maker.ts': service('maker', `${body}\nseq.push(made)`, head) },
      { trace: true }
    )
    expect(await app.next('ready')).toMatchObject({ failed: [] })
    expect(seq).toContain('made')
    expect((await app.next('error')).message).toMatch(/^what the harness starts is not fully known: /)
  })
})

test('a storage whose name throws is reported like any other, and so is one whose run has returned the same Promise', async () => {
  const kept: unknown[] = []
  const slot = globalThis as Record<string, unknown>
  slot['keptStorages'] = kept
  onTestFinished(() => void delete slot['keptStorages'])
  const keeping = (name: string, body: string) =>
    service(
      name,
      `keptStorages.push(storage); void storage.run({}, () => gate('never').promise)`,
      `import { AsyncLocalStorage } from 'node:async_hooks'
       class Named extends AsyncLocalStorage<object> { ${body} }
       const storage = new Named()`
    )
  const app = await boot({
    'maker.ts': keeping('maker', `get name(): never { throw new Error('not for you') }`),
    'sibling.ts': keeping('sibling', `get name() { return 'sibling' }`)
  })
  await app.edit('sibling.ts', bump)
  await app.edit('maker.ts', bump)
  const found = new Map<string, string[]>()
  while (found.size < 2) {
    const { name, outcome, retainers } = await app.next('audit')
    if (outcome === 'retained')
      found.set(
        name,
        retainers.map(({ what }) => what)
      )
  }
  expect(found.get('maker')).toEqual(['run of "AsyncLocalStorage.run()" that has not settled'])
  expect(found.get('sibling')).toEqual(['run of "sibling" that has not settled'])
})
