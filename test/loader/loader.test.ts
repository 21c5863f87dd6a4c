import { describe, expect, test } from 'vitest'
import type { ReloadReport } from '../../plugin/index.ts'
import { type App, seq } from '../fixtures/app.ts'
import { createRowsApp, FAMILIES, plugin } from '../fixtures/loader-fixture.ts'

/** The next report that is not about a file which nothing uses yet. */
async function told(app: App): Promise<ReloadReport> {
  for (;;) {
    const report = await app.next('reload')
    if (report.outcome !== 'ignored') return report
  }
}

describe.each(FAMILIES)('with $loader', family => {
  const yml = (word = 'one') => `# What runs.
- id: greeter
  name: ./providers/greeter.ts
  config:
    word: ${word} # a comment
- id: calc
  name: ./providers/calc.ts
`
  const files = {
    'cordis.yml': yml(),
    'providers/greeter.ts': plugin('greeter'),
    'providers/calc.ts': plugin('calc')
  }

  test('rows of cordis.yml run, and a saved module replaces its row with the config that it has', async () => {
    const app = await createRowsApp(family, files)
    await app.next('ready')
    expect(seq).toEqual(['greeter 1 up {"word":"one"}', 'calc 1 up'])
    const { entry } = { entry: app.entry('greeter') }
    seq.length = 0
    const report = await app.edit('providers/greeter.ts', plugin('greeter', 2))
    expect(report).toMatchObject({ outcome: 'reloaded', failures: [] })
    expect(seq).toEqual(['greeter 1 down', 'greeter 2 up {"word":"one"}'])
    expect(app.entry('greeter')).toBe(entry)
    expect(app.rows()).toEqual(['greeter on', 'calc on'])
    expect(await app.next('audit')).toMatchObject({ name: 'greeter', outcome: 'collected' })
    expect(app.read('cordis.yml')).toBe(yml())
  })

  test('a saved config takes down and up its row alone, and the next module gets it', async () => {
    const app = await createRowsApp(family, files)
    await app.next('ready')
    seq.length = 0
    expect(await app.save('cordis.yml', yml('two'))).toEqual({ outcome: 'reloaded', line: 'configured greeter' })
    expect(seq).toEqual(['greeter 1 down', 'greeter 1 up {"word":"two"}'])
    expect(await app.next('audit')).toMatchObject({ name: 'greeter', outcome: 'collected', instances: { created: 1 } })
    await app.edit('providers/greeter.ts', plugin('greeter', 2))
    expect(seq.at(-1)).toBe('greeter 2 up {"word":"two"}')
    expect(app.read('cordis.yml')).toBe(yml('two'))
  })

  test('rows that are added, removed and put in another order touch no other row', async () => {
    const app = await createRowsApp(family, { ...files, 'providers/clock.ts': plugin('clock') })
    await app.next('ready')
    seq.length = 0
    const clock = `- id: clock\n  name: ./providers/clock.ts\n`
    expect(await app.save('cordis.yml', yml() + clock)).toEqual({ outcome: 'reloaded', line: 'added clock' })
    expect(seq).toEqual(['clock 1 up'])
    app.write('cordis.yml', clock + yml())
    expect(await app.next('reload')).toMatchObject({ outcome: 'ignored', rows: [] })
    expect(seq).toEqual(['clock 1 up'])
    expect(await app.save('cordis.yml', clock)).toEqual({ outcome: 'reloaded', line: 'removed greeter and calc' })
    expect(seq).toEqual(['clock 1 up', 'greeter 1 down', 'calc 1 down'])
    expect(app.rows()).toEqual(['clock on'])
    const audits = [await app.next('audit'), await app.next('audit')]
    expect(audits.map(({ name, outcome }) => `${name} ${outcome}`)).toEqual(['greeter collected', 'calc collected'])
    // A module that is named again is read again.
    app.write('providers/calc.ts', plugin('calc', 2))
    expect(await app.save('cordis.yml', yml())).toEqual({
      outcome: 'reloaded',
      line: 'removed clock, added greeter and calc'
    })
    expect(seq.slice(3)).toEqual(['clock 1 down', 'greeter 1 up {"word":"one"}', 'calc 2 up'])
  })

  test('a file that is broken, empty or half written keeps every row, and the next save is applied', async () => {
    const app = await createRowsApp(family, files)
    await app.next('ready')
    seq.length = 0
    const broken = await app.edit('cordis.yml', `${yml('two')}  config: [`)
    expect(broken).toMatchObject({
      outcome: 'kept',
      error: { location: { file: expect.stringMatching(/cordis\.yml$/) } }
    })
    expect(broken.error!.location!.line).toBeGreaterThan(6)
    expect(await app.edit('cordis.yml', 'word: one\n')).toMatchObject({ outcome: 'kept' })
    app.write('cordis.yml', '')
    expect(await app.next('reload')).toMatchObject({ outcome: 'kept' })
    app.write('cordis.yml', yml('three').slice(0, 40))
    expect((await app.next('reload')).outcome).toBe('kept')
    expect(seq).toEqual([])
    expect(app.rows()).toEqual(['greeter on', 'calc on'])
    expect((await app.save('cordis.yml', yml('three'))).line).toBe('configured greeter')
    expect(seq).toEqual(['greeter 1 down', 'greeter 1 up {"word":"three"}'])
  })

  test('what takes a row down for a moment is a save that was half way, and the second content runs', async () => {
    const app = await createRowsApp(family, files)
    await app.next('ready')
    seq.length = 0
    app.write('cordis.yml', '')
    await new Promise(resolve => setTimeout(resolve, 10))
    app.write('cordis.yml', yml('two'))
    expect(await app.next('reload')).toMatchObject({ outcome: 'reloaded' })
    expect(seq).toEqual(['greeter 1 down', 'greeter 1 up {"word":"two"}'])
  })

  test('a row that names another module is replaced under its id', async () => {
    const app = await createRowsApp(family, { ...files, 'providers/polite.ts': plugin('polite') })
    await app.next('ready')
    seq.length = 0
    const renamed = yml().replace('greeter.ts', 'polite.ts')
    expect(await app.save('cordis.yml', renamed)).toEqual({ outcome: 'reloaded', line: 'replaced greeter' })
    expect(seq).toEqual(['greeter 1 down', 'polite 1 up {"word":"one"}'])
    expect(await app.edit('providers/polite.ts', plugin('polite', 2))).toMatchObject({ outcome: 'reloaded' })
    expect(seq.slice(2)).toEqual(['polite 1 down', 'polite 2 up {"word":"one"}'])
  })

  test('a row is switched off and on, and reloads of others leave it off', async () => {
    const app = await createRowsApp(family, files)
    await app.next('ready')
    seq.length = 0
    const off = yml().replace('- id: greeter', '- id: greeter\n  disabled: true')
    expect(await app.save('cordis.yml', off)).toEqual({ outcome: 'reloaded', line: 'disabled greeter' })
    expect(app.rows()).toEqual(['greeter off', 'calc on'])
    await app.edit('providers/calc.ts', plugin('calc', 2))
    expect(app.rows()).toEqual(['greeter off', 'calc on'])
    expect(await app.save('cordis.yml', yml())).toEqual({ outcome: 'reloaded', line: 'enabled greeter' })
    expect(seq).toEqual(['greeter 1 down', 'calc 1 down', 'calc 2 up', 'greeter 1 up {"word":"one"}'])
  })

  test('of two rows of one module each has its config, and both get the new code', async () => {
    const two = (a: string, b: string) => `
- { id: a, name: ./providers/greeter.ts, config: { word: ${a} } }
- { id: b, name: ./providers/greeter.ts, config: { word: ${b} } }\n`
    const app = await createRowsApp(family, { ...files, 'cordis.yml': two('x', 'y') })
    await app.next('ready')
    seq.length = 0
    expect((await app.save('cordis.yml', two('x', 'z'))).line).toBe('configured b')
    expect(seq).toEqual(['greeter 1 down', 'greeter 1 up {"word":"z"}'])
    seq.length = 0
    await app.edit('providers/greeter.ts', plugin('greeter', 2))
    expect(seq).toEqual(['greeter 1 down', 'greeter 1 down', 'greeter 2 up {"word":"x"}', 'greeter 2 up {"word":"z"}'])
    expect((await app.save('cordis.yml', two('x', 'z').split('\n').slice(0, 2).join('\n'))).line).toBe('removed b')
    expect(app.rows()).toEqual(['a on'])
    await app.edit('providers/greeter.ts', plugin('greeter', 3))
    expect(seq.at(-1)).toBe('greeter 3 up {"word":"x"}')
  })

  test('rows without an id keep their instances, and are called by their names', async () => {
    const rows = (word: string, rest = '') => `
- { name: ./providers/greeter.ts, config: { word: same } }
- { name: ./providers/greeter.ts, config: { word: ${word} } }
${rest}`
    const app = await createRowsApp(family, { ...files, 'cordis.yml': rows('one') })
    await app.next('ready')
    const ids = app.rows()
    seq.length = 0
    expect(await app.save('cordis.yml', rows('two', '- { name: ./providers/calc.ts }\n'))).toEqual({
      outcome: 'reloaded',
      line: 'configured ./providers/greeter.ts, added ./providers/calc.ts'
    })
    expect(seq).toEqual(['greeter 1 down', 'greeter 1 up {"word":"two"}', 'calc 1 up'])
    expect(app.rows().slice(0, 2)).toEqual(ids)
  })

  test('rows of a group are told apart, move out of it, and end with it', async () => {
    const group = (word: string, rest = '') => `
- id: group
  name: '${family.group}'
  group: true
  config:
    - { id: greeter, name: ./providers/greeter.ts, config: { word: ${word} } }
${rest}`
    const inside = '    - { id: calc, name: ./providers/calc.ts }\n'
    const outside = '- { id: calc, name: ./providers/calc.ts }\n'
    const app = await createRowsApp(family, { ...files, 'cordis.yml': group('one', inside) })
    await app.next('ready')
    expect(app.rows()).toEqual(['group on', 'greeter on', 'calc on'])
    seq.length = 0
    expect((await app.save('cordis.yml', group('two', inside))).line).toBe('configured greeter')
    expect(seq.splice(0)).toEqual(['greeter 1 down', 'greeter 1 up {"word":"two"}'])
    expect(await app.edit('providers/calc.ts', plugin('calc', 2))).toMatchObject({ outcome: 'reloaded' })
    expect(seq.splice(0)).toEqual(['calc 1 down', 'calc 2 up'])
    expect((await app.save('cordis.yml', group('two', outside))).line).toBe('replaced calc')
    expect(seq.splice(0)).toEqual(['calc 2 down', 'calc 2 up'])
    expect(
      (await app.save('cordis.yml', group('two').replace('group: true', 'group: true\n  disabled: true') + outside))
        .line
    ).toBe('disabled greeter')
    expect(app.rows().toSorted()).toEqual(['calc on', 'greeter off', 'group on'])
    expect((await app.save('cordis.yml', outside)).line).toBe('removed group')
    expect(app.rows()).toEqual(['calc on'])
  })

  test('a group that goes with a service it waits for comes back with its rows, and the file is as it was', async () => {
    const content = `
- id: store
  name: ./providers/store.ts
- id: group
  name: '${family.group}'
  group: true
  inject: [store]
  config:
    - { id: greeter, name: ./providers/greeter.ts } # stays\n`
    const app = await createRowsApp(family, {
      ...files,
      'cordis.yml': content,
      'providers/store.ts': plugin('store', 1, { body: `ctx.reflect.provide('store', { n: VERSION })` })
    })
    await app.next('ready')
    expect(app.rows()).toEqual(['store on', 'group on', 'greeter on'])
    const next = plugin('store', 2, { body: `ctx.reflect.provide('store', { n: VERSION })` })
    expect(await app.edit('providers/store.ts', next)).toMatchObject({ outcome: 'reloaded', failures: [] })
    await new Promise(resolve => setTimeout(resolve, 20))
    expect(app.rows()).toEqual(['store on', 'group on', 'greeter on'])
    expect(app.read('cordis.yml')).toBe(content)
  })

  test('a row with a service of its own keeps it to itself through reloads', async () => {
    const content = `
- { id: shared, name: ./providers/store.ts, config: { n: 1 } }
- id: own
  name: '${family.group}'
  group: true
  isolate: { store: true }
  config:
    - { id: inner, name: ./providers/store.ts, config: { n: 2 } }
    - { id: reader, name: ./providers/reader.ts }
- { id: outer, name: ./providers/reader.ts }\n`
    const store = (v: number) => plugin('store', v, { body: `ctx.reflect.provide('store', config)` })
    const reader = (v: number) => plugin('reader', v, { inject: ['store'], body: `say('sees ' + ctx.store.n)` })
    const app = await createRowsApp(family, {
      'cordis.yml': content,
      'providers/store.ts': store(1),
      'providers/reader.ts': reader(1)
    })
    await app.next('ready')
    const seen = () =>
      seq
        .splice(0)
        .filter(text => text.includes('sees'))
        .toSorted()
    expect(seen()).toEqual(['reader 1 sees 1', 'reader 1 sees 2'])
    await app.edit('providers/reader.ts', reader(2))
    expect(seen()).toEqual(['reader 2 sees 1', 'reader 2 sees 2'])
    await app.edit('providers/store.ts', store(2))
    expect(seen()).toEqual(['reader 2 sees 1', 'reader 2 sees 2'])
    expect((await app.save('cordis.yml', content.replace('n: 2', 'n: 3'))).line).toBe('configured inner')
    expect(seen()).toEqual(['reader 2 sees 3'])
    expect(app.rows().every(row => row.endsWith(' on'))).toBe(true)
  })

  test('a row that includes a file has its rows reloaded, and a save of that file is one of theirs', async () => {
    const more = (word: string) => `- { id: greeter, name: ./providers/greeter.ts, config: { word: ${word} } } # here\n`
    // A path of its own: not every loader knows where an included file is.
    const content = `
- { id: calc, name: ./providers/calc.ts }
- { id: more, name: '${family.include}', config: { path: 'file:///ROOT/more.yml' } }\n`
    const app = await createRowsApp(family, {
      ...files,
      'cordis.yml': content,
      'more.yml': more('one')
    })
    await app.next('ready')
    expect(app.rows()).toEqual(['calc on', 'greeter on'])
    seq.length = 0
    expect(await app.save('more.yml', more('two'))).toEqual({ outcome: 'reloaded', line: 'configured greeter' })
    await app.edit('providers/greeter.ts', plugin('greeter', 2))
    expect(seq).toEqual([
      'greeter 1 down',
      'greeter 1 up {"word":"two"}',
      'greeter 1 down',
      'greeter 2 up {"word":"two"}'
    ])
    expect(app.read('more.yml')).toBe(more('two'))
  })

  test('a row whose module fails is tried again when that is mended, or what it asks for appears', async () => {
    const app = await createRowsApp(family, {
      ...files,
      'providers/calc.ts': `import { two } from './two.ts'\n${plugin('calc')}\nexport const x = two`
    })
    expect(await app.next('ready')).toMatchObject({ failed: ['./providers/calc.ts'] })
    expect(app.rows()).toEqual(['greeter on', 'calc state undefined'])
    app.write('providers/two.ts', 'export const two = 2')
    expect(await app.next('reload')).toMatchObject({ outcome: 'reloaded', rows: [{ row: 'calc', change: 'added' }] })
    expect(app.rows()).toEqual(['greeter on', 'calc on'])
    // And the one that is added by a save.
    const added = `${yml()}- { id: late, name: ./providers/late.ts }\n`
    expect(await app.edit('cordis.yml', added)).toMatchObject({ outcome: 'kept' })
    app.write('providers/late.ts', plugin('late', 1).replace('apply', 'apply('))
    expect((await told(app)).outcome).toBe('kept')
    seq.length = 0
    app.write('providers/late.ts', plugin('late', 1))
    expect(await told(app)).toMatchObject({ outcome: 'reloaded', rows: [{ row: 'late', change: 'added' }] })
    expect(seq).toEqual(['late 1 up'])
    expect(app.read('cordis.yml')).toBe(added)
  })

  test('a config that the plugin refuses is rolled back, with the row as its place, and the file stays as saved', async () => {
    const picky = plugin('greeter', 1, { body: `if (config.word === 'bad') throw new Error('no such word')` })
    const app = await createRowsApp(family, { ...files, 'providers/greeter.ts': picky })
    await app.next('ready')
    seq.length = 0
    const report = await app.edit('cordis.yml', yml('bad'))
    expect(report).toMatchObject({
      outcome: 'rolled-back',
      error: { message: expect.stringContaining('no such word') }
    })
    expect(seq.filter(text => text.includes('up'))).toEqual(['greeter 1 up {"word":"one"}'])
    expect(app.rows().toSorted()).toEqual(['calc on', 'greeter on'])
    expect(app.read('cordis.yml')).toBe(yml('bad'))
    // With the module that takes it, it runs.
    seq.length = 0
    await app.edit('providers/greeter.ts', plugin('greeter', 2))
    await app.harness.idle()
    expect(seq.at(-1)).toBe('greeter 2 up {"word":"bad"}')
  })

  test('expressions are evaluated, also for the new version', async () => {
    const content = yml().replace('word: one', `word: !!js "['o', 'k'].join('')"`)
    const app = await createRowsApp(family, { ...files, 'cordis.yml': content })
    await app.next('ready')
    await app.edit('providers/greeter.ts', plugin('greeter', 2))
    expect(seq.filter(text => text.startsWith('greeter'))).toEqual([
      'greeter 1 up {"word":"ok"}',
      'greeter 1 down',
      'greeter 2 up {"word":"ok"}'
    ])
    expect(app.read('cordis.yml')).toBe(content)
  })

  test('a row of the hmr plugin is left out with one line', async () => {
    const hmr = family.loader.replace('loader', 'hmr')
    const app = await createRowsApp(family, { ...files, 'cordis.yml': `- { id: hmr, name: '${hmr}' }\n${yml()}` })
    await app.next('ready')
    expect(app.lines.filter(line => line.includes(`the row of ${hmr} is left out`))).toHaveLength(1)
    expect(app.rows()).toEqual(['hmr on', 'greeter on', 'calc on'])
  })

  test('a provider that fails and is rolled back leaves the file as it is', async () => {
    const app = await createRowsApp(family, files)
    await app.next('ready')
    const bad = plugin('greeter', 2, { body: `throw new Error('not today')` })
    expect(await app.edit('providers/greeter.ts', bad)).toMatchObject({ outcome: 'rolled-back' })
    await new Promise(resolve => setTimeout(resolve, 20))
    expect(app.read('cordis.yml')).toBe(yml())
    expect(app.rows()).toEqual(['greeter on', 'calc on'])
    expect(seq.at(-1)).toBe('greeter 1 up {"word":"one"}')
  })
})
