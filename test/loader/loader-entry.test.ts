import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, test } from 'vitest'
import { gate, seq } from '../fixtures/app.ts'
import { createRowsApp, FAMILIES, plugin } from '../fixtures/loader-fixture.ts'

const yml = `- { id: greeter, name: ./providers/greeter.ts, config: { word: one } } # kept\n`

describe.each(FAMILIES)('with $loader', family => {
  const entry = `
    import { pathToFileURL } from 'node:url'
    import Loader from '${family.loader}'
    export default function harness(ctx) {
      ctx.plugin(Loader, { baseUrl: new URL('.', import.meta.url).href })
      ctx.inject(['loader'], ctx => {
        ctx.loader.create({ name: '${family.include}', config: { path: new URL('./cordis.yml', import.meta.url).href } })
        ctx.loader.create({ id: 'calc', name: './providers/calc.ts' })
      })
    }`
  const files = {
    'harness.ts': entry,
    'cordis.yml': yml,
    'providers/greeter.ts': plugin('greeter'),
    'providers/calc.ts': plugin('calc')
  }

  test('an entry that installs the loader itself has its rows reloaded, those of the file and those of its own', async () => {
    const app = await createRowsApp(family, files, { entry: 'harness.ts' })
    await app.next('ready')
    expect(seq.splice(0).toSorted()).toEqual(['calc 1 up', 'greeter 1 up {"word":"one"}'])
    await app.edit('providers/calc.ts', plugin('calc', 2))
    expect(await app.save('cordis.yml', yml.replace('one', 'two'))).toMatchObject({ line: 'configured greeter' })
    await app.edit('providers/greeter.ts', plugin('greeter', 2))
    expect(seq.splice(0)).toEqual([
      'calc 1 down',
      'calc 2 up',
      'greeter 1 down',
      'greeter 1 up {"word":"two"}',
      'greeter 1 down',
      'greeter 2 up {"word":"two"}'
    ])
    // The entry itself is a restart, and the rows of the new loader are ours too.
    expect(await app.edit('harness.ts', entry.replace("id: 'calc'", "id: 'sum'"))).toMatchObject({
      outcome: 'restarted'
    })
    seq.length = 0
    await app.edit('providers/greeter.ts', plugin('greeter', 3))
    expect(seq).toEqual(['greeter 2 down', 'greeter 3 up {"word":"two"}'])
    expect(app.read('cordis.yml')).toBe(yml.replace('one', 'two'))
  })

  test('a row of its own whose module fails is tried again when that is mended', async () => {
    const app = await createRowsApp(family, { ...files, 'providers/calc.ts': 'const = 1' }, { entry: 'harness.ts' })
    expect(await app.next('ready')).toMatchObject({ failed: ['./providers/calc.ts'] })
    seq.length = 0
    app.write('providers/calc.ts', plugin('calc'))
    await app.next('reload')
    await app.harness.idle()
    expect(seq).toEqual(['calc 1 up'])
    expect(app.lines.some(line => line.includes('added calc'))).toBe(true)
    await app.edit('providers/calc.ts', plugin('calc', 2))
    expect(seq.at(-1)).toBe('calc 2 up')
  })

  test('rows in JSON are as good, and a mistake in them has a place', async () => {
    const json = (word: string) =>
      `[\n  { "id": "greeter", "name": "./providers/greeter.ts", "config": { "word": "${word}" } }\n]\n`
    const app = await createRowsApp(family, { ...files, 'cordis.json': json('one') }, { entry: 'cordis.json' })
    await app.next('ready')
    expect(await app.save('cordis.json', json('two'))).toMatchObject({ line: 'configured greeter' })
    const report = await app.edit('cordis.json', json('two').replace(']', '}'))
    expect(report).toMatchObject({ outcome: 'kept', error: { location: { line: 3 } } })
    expect(app.rows()).toEqual(['greeter on'])
  })

  test('a file that is broken when the server starts is told with its place, and its mending starts the harness', async () => {
    const app = await createRowsApp(family, { ...files, 'cordis.yml': `${yml}  broken: [\n` })
    expect(await app.next('failed')).toMatchObject({ location: { file: join(app.root, 'cordis.yml') } })
    app.write('cordis.yml', yml)
    await app.next('ready')
    expect(seq).toEqual(['greeter 1 up {"word":"one"}'])
  })

  test('a config that the plugin is given by others, and one that it gives itself, is what the next version gets', async () => {
    const app = await createRowsApp(family, files)
    await app.next('ready')
    app.entry('greeter').fiber!.update({ word: 'three' }, true)
    await app.harness.running!.fibers.settled()
    app.entry('greeter').options.config = { word: 'three' }
    seq.length = 0
    await app.edit('providers/greeter.ts', plugin('greeter', 2))
    expect(seq.at(-1)).toBe('greeter 2 up {"word":"three"}')
  })

  test('what is saved at once, the file and modules that it names and does not name any more, is applied together', async () => {
    const app = await createRowsApp(family, files)
    await app.next('ready')
    seq.length = 0
    writeFileSync(join(app.root, 'providers/greeter.ts'), plugin('greeter', 2))
    writeFileSync(join(app.root, 'providers/clock.ts'), plugin('clock'))
    app.write('cordis.yml', `${yml}- { id: clock, name: ./providers/clock.ts }\n`)
    while (seq.length < 3) await app.next('reload')
    await app.harness.idle()
    expect(seq.toSorted()).toEqual(['clock 1 up', 'greeter 1 down', 'greeter 2 up {"word":"one"}'])
    expect(readFileSync(join(app.root, 'cordis.yml'), 'utf8')).toContain('# kept')
  })

  test('drivers are told of what a save takes down, and of every service that goes with it', async () => {
    const store = plugin('store', 1, { body: `ctx.reflect.provide('store', config)` })
    const app = await createRowsApp(family, {
      'cordis.yml': `- { id: store, name: ./store.ts, config: { n: 1 } }\n- { id: user, name: ./user.ts }\n- { id: driver, name: ./driver.ts }\n`,
      'store.ts': store,
      'user.ts': plugin('user', 1, { inject: ['store'], body: `ctx.reflect.provide('page', {})` }),
      'driver.ts': plugin('driver', 1, {
        body: `ctx.on('harness-hmr/before-reload', async ({ providers, services }) => {
          await null
          seq.push('parks for ' + providers.map(({ name }) => name) + ' ' + services.toSorted())
        })`
      })
    })
    await app.next('ready')
    seq.length = 0
    await app.save('cordis.yml', app.read('cordis.yml').replace('n: 1', 'n: 2'))
    expect(seq).toEqual([
      'parks for store page,store',
      'store 1 down',
      'user 1 down',
      'store 1 up {"n":2}',
      'user 1 up'
    ])
  })

  test('a row that others run on is removed, and who waits for it is told and not rolled back', async () => {
    const content = `- { id: store, name: ./store.ts }\n- { id: user, name: ./user.ts }\n`
    const app = await createRowsApp(family, {
      'cordis.yml': content,
      'store.ts': plugin('store', 1, { body: `ctx.reflect.provide('store', {})` }),
      'user.ts': plugin('user', 1, { inject: ['store'] })
    })
    await app.next('ready')
    const report = await app.edit('cordis.yml', content.split('\n').slice(1).join('\n'))
    expect(report).toMatchObject({ outcome: 'reloaded', failures: [expect.stringContaining('it waits for "store"')] })
    expect(app.rows()).toEqual(['user state 0'])
    expect(await app.edit('cordis.yml', content)).toMatchObject({ outcome: 'reloaded', failures: [] })
    expect(app.rows().toSorted()).toEqual(['store on', 'user on'])
  })
})

// Only one of the families knows values that are handed on as they change.
test('values that a plugin takes as they change are given to what runs, and to the next version', async () => {
  const family = FAMILIES[0]!
  const content = (word: string) => `- { id: greeter, name: ./greeter.ts, config: { word: ${word}, size: 1 } }\n`
  const greeter = (version: number) => `
    import z from '@deepseek-ai/schemastery'
    export const name = 'greeter'
    export const Config = z.object({ word: z.string().volatile(), size: z.number() })
    export function apply(ctx, { word, size }) {
      seq.push('${version} up ' + word.get() + size)
      ctx.on('loader/volatile-update', () => void seq.push('${version} hears ' + word.get()))
      ctx.effect(() => () => void seq.push('${version} down'))
    }`
  const app = await createRowsApp(family, { 'cordis.yml': content('one'), 'greeter.ts': greeter(1) })
  await app.next('ready')
  expect(await app.save('cordis.yml', content('two'))).toEqual({ outcome: 'reloaded', line: 'configured greeter' })
  expect(seq).toEqual(['1 up one1', '1 hears two'])
  await app.edit('greeter.ts', greeter(2))
  await app.save('cordis.yml', content('two').replace('size: 1', 'size: 2'))
  expect(seq.slice(2)).toEqual(['1 down', '2 up two1', '2 down', '2 up two2'])
})

test('a plugin that takes its config as it runs keeps its instance, and a row that is included with other patches has them', async () => {
  const family = FAMILIES[0]!
  const content = (word: string, patch: string) => `
- { id: live, name: ./live.ts, config: { word: ${word} } }
- id: more
  name: '${family.include}'
  config:
    path: ./more.yml
    patches: [{ id: inner, config: { n: ${patch} } }]\n`
  const live = `
    export const name = 'live'
    export function apply(ctx, config) {
      seq.push('up ' + config.word)
      ctx.on('internal/update', ({ word }) => void seq.push('takes ' + word))
      ctx.effect(() => () => void seq.push('down'))
    }`
  const more = `- { id: inner, name: ./inner.ts, config: { n: 0 } } # as it is\n`
  const app = await createRowsApp(family, {
    'cordis.yml': content('one', '1'),
    'more.yml': more,
    'live.ts': live,
    'inner.ts': plugin('inner')
  })
  await app.next('ready')
  expect(seq.splice(0).toSorted()).toEqual(['inner 1 up {"n":1}', 'up one'])
  expect(await app.save('cordis.yml', content('two', '1'))).toMatchObject({ line: 'configured live' })
  expect(seq.splice(0)).toEqual(['takes two'])
  expect(await app.save('cordis.yml', content('two', '2'))).toMatchObject({ line: 'configured inner and more' })
  expect(seq.splice(0)).toEqual(['inner 1 down', 'inner 1 up {"n":2}'])
  await app.edit('inner.ts', plugin('inner', 2))
  expect(seq.splice(0)).toEqual(['inner 1 down', 'inner 2 up {"n":2}'])
  await app.edit('live.ts', live.replace('up ', 'up again '))
  expect(seq.splice(0)).toEqual(['down', 'up again two'])
  expect(app.read('more.yml')).toBe(more)
})

test('a config that its schema refuses is told at its row, and everything runs as before', async () => {
  const family = FAMILIES[0]!
  const content = (n: string) =>
    `- { id: other, name: ./other.ts }\n- id: greeter\n  name: ./greeter.ts\n  config: { n: ${n} }\n`
  const greeter = plugin('greeter').replace(
    'export const inject',
    `
    import z from '@deepseek-ai/schemastery'
    export const Config = z.object({ n: z.number() })
    export const inject`
  )
  const app = await createRowsApp(family, {
    'cordis.yml': content('1'),
    'greeter.ts': greeter,
    'other.ts': plugin('other')
  })
  await app.next('ready')
  seq.length = 0
  const report = await app.edit('cordis.yml', content('word'))
  expect(report).toMatchObject({
    outcome: 'rolled-back',
    error: {
      message: expect.stringMatching(/row "greeter": .*number/s),
      location: { file: join(app.root, 'cordis.yml'), line: 2 }
    }
  })
  expect(seq).toEqual(['greeter 1 down', 'greeter 1 up {"n":1}'])
  expect(app.rows().toSorted()).toEqual(['greeter on', 'other on'])
})

test('a row whose end does not come is left behind at the deadline, and the new one runs', async () => {
  const family = FAMILIES[0]!
  const body = `ctx.reflect.provide('greeter', config); if (config.word === 'one') ctx.effect(() => () => gate('end').promise)`
  const app = await createRowsApp(
    family,
    { 'cordis.yml': yml, 'providers/greeter.ts': plugin('greeter', 1, { body }) },
    { deadline: 300 }
  )
  await app.next('ready')
  expect(await app.save('cordis.yml', yml.replace('one', 'two'))).toMatchObject({ outcome: 'reloaded' })
  expect(app.service('greeter')).toEqual({ word: 'two' })
  expect(app.rows()).toEqual(['greeter on'])
  expect(await app.next('audit')).toMatchObject({ outcome: 'pending' })
  gate('end').resolve()
  expect(await app.next('audit')).toMatchObject({ outcome: 'collected' })
  expect(app.service('greeter')).toEqual({ word: 'two' })
  await app.edit('providers/greeter.ts', plugin('greeter', 2, { body }))
  expect(app.service('greeter')).toEqual({ word: 'two' })
  expect(app.read('cordis.yml')).toBe(yml.replace('one', 'two'))
})

test('a service that a row begins to keep to itself, and shares again, is seen by whom it should', async () => {
  const family = FAMILIES[0]!
  const content = (isolate: string) => `
- { id: outer, name: ./reader.ts }
- id: group
  name: '${family.group}'
  group: true
  config:
    - { id: store, name: ./store.ts${isolate} }\n`
  const app = await createRowsApp(family, {
    'cordis.yml': content(''),
    'store.ts': plugin('store', 1, { body: `ctx.reflect.provide('store', { n: 1 })` }),
    'reader.ts': plugin('reader', 1, { inject: ['store'] })
  })
  await app.next('ready')
  expect(app.rows().toSorted()).toEqual(['group on', 'outer on', 'store on'])
  const report = await app.edit('cordis.yml', content(', isolate: { store: true }'))
  expect(report).toMatchObject({ outcome: 'reloaded', rows: [{ row: 'store', change: 'configured' }] })
  expect(app.rows().toSorted()).toEqual(['group on', 'outer state 0', 'store on'])
  expect(await app.edit('cordis.yml', content(''))).toMatchObject({ outcome: 'reloaded' })
  expect(app.rows().toSorted()).toEqual(['group on', 'outer on', 'store on'])
})

test('a row that is given up by the code that it runs is given up in the file, as ever', async () => {
  const family = FAMILIES[0]!
  const app = await createRowsApp(family, {
    'cordis.yml': yml,
    'providers/greeter.ts': plugin('greeter', 1, { body: `globalThis.giveUp = () => ctx.fiber.dispose()` })
  })
  await app.next('ready')
  ;(globalThis as unknown as { giveUp(): void }).giveUp()
  expect(await app.next('reload')).toMatchObject({ outcome: 'ignored' })
  expect(app.read('cordis.yml')).toContain('disabled: true')
  expect(app.rows()).toEqual(['greeter off'])
})
