import { describe, expect, test } from 'vitest'
import { createApp, gate, seq } from '../fixtures/app.ts'
import { bump, composing, service } from '../fixtures/field-fixture.ts'
import { turn } from '../promptly.ts'

const files = {
  'harness.ts': composing('./agents.ts', './tools.ts'),
  'agents.ts': service('agents'),
  'tools.ts': service('tools')
}
const quick = { warnAfter: 10, deadline: 50 }
/** A disposer that does not end before the test says so. */
const held = (name: string) =>
  `ctx.effect(() => () => (gate('${name} draining').resolve(), gate('${name} drain').promise))`

test('a successor starts strictly after the async disposer of the old instance', async () => {
  const app = await createApp(
    {
      ...files,
      'agents.ts': service(
        'agents',
        `ctx.effect(() => async () => { await gate('drain').promise; await null; seq.push('drained') })`
      )
    },
    { warnAfter: 5 }
  )
  await app.next('ready')
  const reloading = app.edit('agents.ts', bump)
  expect((await app.next('slow')).providers).toEqual(['agents 1'])
  expect(app.service('agents')).toBeUndefined()
  expect(seq).not.toContain('agents 2 up')
  gate('drain').resolve()
  expect((await reloading).outcome).toBe('reloaded')
  expect(seq.slice(-2)).toEqual(['drained', 'agents 2 up'])
})

test('what a dependent still writes late in its teardown arrives at the provider that goes down with it', async () => {
  const app = await createApp({
    'harness.ts': composing('./log.ts', './loop.ts'),
    'log.ts': `
      export const version = 1
      export default class Log {
        constructor(ctx: any) {
          let open = true
          ctx.effect(function* () {
            yield () => { open = false; seq.push('closed') }
            yield ctx.provide('log', { write: (line: string) => seq.push(open ? line : 'lost ' + line) })
          })
        }
      }`,
    'loop.ts': `export default class Loop {
      static inject = ['log']
      constructor(ctx: any) {
        const { log } = ctx
        ctx.effect(() => async () => {
          gate('stopping').resolve()
          await gate('last').promise
          log.write('last line')
          ctx.log.write('very last line')
        })
      }
    }`
  })
  await app.next('ready')
  const reloading = app.edit('log.ts', bump)
  await gate('stopping').promise
  for (let i = 0; i < 5; i++) await turn()
  gate('last').resolve()
  expect(await reloading).toMatchObject({ outcome: 'reloaded', failures: [] })
  expect(seq).toEqual(['last line', 'very last line', 'closed'])
})

describe('a disposer that never settles', () => {
  const hanging = { ...files, 'agents.ts': service('agents', held('agents')) }

  test('is named at the deadline, and the provider and the others can be reloaded after it', async () => {
    const app = await createApp(hanging, quick)
    await app.next('ready')
    expect(await app.edit('agents.ts', bump)).toMatchObject({
      outcome: 'reloaded',
      providers: [{ name: 'agents', to: 2 }]
    })
    expect((await app.next('slow')).providers).toEqual(['agents 1'])
    expect(await app.next('audit')).toMatchObject({ name: 'agents', generation: 1, outcome: 'pending' })
    expect((await app.edit('tools.ts', bump)).outcome).toBe('reloaded')
    expect((await app.edit('agents.ts', bump)).outcome).toBe('reloaded')
    expect([app.service('agents')['version'], app.service('tools')['version']]).toEqual([3, 2])
  })

  test('leaves the other providers serving meanwhile', async () => {
    const app = await createApp(hanging)
    await app.next('ready')
    const tools = app.service('tools')
    const reloading = app.edit('agents.ts', bump)
    await gate('agents draining').promise
    expect(app.service('tools')).toBe(tools)
    gate('agents drain').resolve()
    expect((await reloading).outcome).toBe('reloaded')
  })

  test('is a fact of the report of the reload that went on without it', async () => {
    const app = await createApp(hanging, quick)
    await app.next('ready')
    const report = await app.edit('agents.ts', bump)
    expect(report.providers).toMatchObject([{ name: 'agents', abandoned: true }])
  })

  test('before the service is removed still lets the successor in after the deadline', async () => {
    const ordered = `ctx.effect(function* () {
      yield ctx.provide('jobs', {})
      ${held('jobs').replace('ctx.effect(() =>', 'yield (').replace(/\)$/, ')')}
    })`
    const app = await createApp({ ...files, 'agents.ts': service('agents', ordered) }, quick)
    await app.next('ready')
    expect(await app.edit('agents.ts', bump)).toMatchObject({ outcome: 'reloaded', failures: [] })
    expect(app.service('agents')['version']).toBe(2)
    gate('jobs drain').resolve()
    while ((await app.next('audit')).outcome !== 'collected');
    expect(app.service('jobs')).toBeDefined()
  })

  const onAgents = (body: string) =>
    service('tools', body).replace('version = 1', `version = 1\nstatic inject = ['agents']`)

  test('of a dependent lets it come back on the new version when it ends at last', async () => {
    const app = await createApp(
      { ...files, 'tools.ts': onAgents(`seq.push('tools on ' + ctx.agents.version)\n${held('tools')}`) },
      quick
    )
    await app.next('ready')
    expect((await app.edit('agents.ts', bump)).outcome).toBe('reloaded')
    expect(app.service('tools')).toBeUndefined()
    gate('tools drain').resolve()
    await app.harness.running!.fibers.settled()
    expect(seq.at(-1)).toBe('tools on 2')
  })

  // The drain waits for the provider's own fiber, in which Cordis waits for the dependent (drain.ts).
  test('of a dependent is named, and not the provider alone', async () => {
    const app = await createApp({ ...files, 'tools.ts': onAgents(held('tools')) }, quick)
    await app.next('ready')
    await app.edit('agents.ts', bump)
    expect(app.lines.find(line => line.includes('draining'))).toContain('tools')
  })
})

test('handlers of before-reload and after-reload that throw are reported, and the others are waited for', async () => {
  const app = await createApp({
    ...files,
    'tools.ts': service(
      'tools',
      `ctx.on('harness-hmr/before-reload', () => { throw new Error('not parked') })
      ctx.on('harness-hmr/before-reload', async () => { await null; seq.push('parked') })
      ctx.on('harness-hmr/after-reload', async () => { throw new Error('not resumed') })`
    )
  })
  await app.next('ready')
  const report = await app.edit('agents.ts', bump)
  expect(report).toMatchObject({
    outcome: 'reloaded',
    failures: ['harness-hmr/before-reload: not parked', 'harness-hmr/after-reload: not resumed']
  })
  expect(seq.indexOf('parked')).toBeLessThan(seq.indexOf('agents 1 down'))
  expect(seq).toContain('parked')
})

test('a boundary that a constructor opened is shown by its line, and not by a line of Cordis that called it', async () => {
  const source = service(
    'agents',
    `const scope = new BoundaryScope({ name: 'agents', label: String })
    ctx.effect(() => () => scope.dispose())
    void scope.run('ada', () => gate('drain').promise)`
  )
  const app = await createApp(
    { ...files, 'agents.ts': `import { BoundaryScope } from 'harness-hmr/scope'\n${source}` },
    quick
  )
  await app.next('ready')
  await app.edit('agents.ts', bump)
  expect(app.lines.find(line => line.includes('draining'))).toMatch(/\n {2}ada .*\/agents\.ts:\d+:\d+\)?$/)
  gate('drain').resolve()
})

test('a disposer that throws is reported, and neither its provider nor another is blocked', async () => {
  const app = await createApp({
    ...files,
    'agents.ts': service('agents', `ctx.effect(() => () => { throw new Error('stuck') })`)
  })
  await app.next('ready')
  expect(await app.edit('agents.ts', bump)).toMatchObject({ outcome: 'reloaded', failures: ['stuck'] })
  expect((await app.edit('tools.ts', bump)).outcome).toBe('reloaded')
  expect(seq.slice(-4)).toEqual(['agents 1 down', 'agents 2 up', 'tools 1 down', 'tools 2 up'])
})

test('two providers that await the disposal of each other are named at the deadline and replaced', async () => {
  const waits = (own: string, other: string) =>
    service(
      own,
      `ctx.effect(() => async () => { await gate('${other} gone').promise; gate('${own} gone').resolve() })`,
      `import { leaf } from './leaf.ts'\nseq.push(leaf)`
    )
  const app = await createApp(
    {
      ...files,
      'agents.ts': waits('agents', 'tools'),
      'tools.ts': waits('tools', 'agents'),
      'leaf.ts': `export const leaf = 'leaf 1'`
    },
    quick
  )
  await app.next('ready')
  const report = await app.edit('leaf.ts', `export const leaf = 'leaf 2'`)
  expect(report.outcome).toBe('reloaded')
  expect((await app.next('slow')).providers.toSorted()).toEqual(['agents 1', 'tools 1'])
  expect(seq.slice(-2)).toEqual(['agents 1 up', 'tools 1 up'])
})

describe('an effect or a plugin that is started while its owner unloads', () => {
  const late = `
    const start = (what: string, how: () => void) => { try { how() } catch { seq.push(what + ' refused') } }
    const lateEffect = (ctx: any) => () => { seq.push('effect up'); return () => void seq.push('effect down') }
    const latePlugin = (ctx: any) => { seq.push('plugin up'); ctx.effect(() => () => void seq.push('plugin down')) }`
  const starts = `ctx.effect(() => async () => {
    await null
    start('effect', () => ctx.effect(lateEffect(ctx)))
    start('plugin', () => ctx.plugin(latePlugin))
  })`
  const left = () =>
    ['effect', 'plugin'].filter(
      what => seq.filter(line => line === `${what} up`).length !== seq.filter(line => line === `${what} down`).length
    )

  test('is refused or disposed when the owner itself is replaced', async () => {
    const app = await createApp({ ...files, 'agents.ts': service('agents', starts, late) })
    await app.next('ready')
    expect((await app.edit('agents.ts', bump)).outcome).toBe('reloaded')
    await app.harness.running!.fibers.settled()
    expect(left()).toEqual([])
  })

  test('is refused or disposed when the owner goes down with a service that is replaced', async () => {
    const app = await createApp({
      ...files,
      'tools.ts': service('tools', starts, late).replace('version = 1', `static inject = ['agents']\nversion = 1`)
    })
    await app.next('ready')
    expect((await app.edit('agents.ts', bump)).outcome).toBe('reloaded')
    await app.harness.running!.fibers.settled()
    expect(left()).toEqual([])
  })
})

test('an effect that was started in an event handler is disposed exactly once', async () => {
  const app = await createApp({
    ...files,
    'agents.ts': service('agents', `ctx.on('ping', () => ctx.effect(() => () => void seq.push('effect down')))`)
  })
  await app.next('ready')
  app.harness.running!.fibers.root.emit('ping')
  await app.edit('agents.ts', bump)
  await app.edit('agents.ts', bump)
  expect(seq.filter(line => line === 'effect down')).toHaveLength(1)
})
