import { readFileSync, symlinkSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import type { Plugin } from 'vite'
import { describe, expect, test, vi } from 'vitest'
import { type App, createApp, createFolder, gate, seq } from '../fixtures/app.ts'
import { bump, composing, service } from '../fixtures/field-fixture.ts'
import { promptly } from '../promptly.ts'

const files = {
  'harness.ts': composing('./agents.ts', './sibling.ts'),
  'agents.ts': service('agents'),
  'sibling.ts': service('sibling')
}
const siblings = () => seq.filter(line => line.startsWith('sibling'))

describe('a saved asset', () => {
  test.each([
    ['?raw text', 'prompt.txt', `import text from './prompt.txt?raw'`, 'be brief', 'be kind'],
    ['?raw markdown', 'prompt.md', `import text from './prompt.md?raw'`, '# brief', '# kind'],
    [
      'JSON',
      'prompt.json',
      `import data from './prompt.json'\nconst { text } = data`,
      '{"text":"brief"}',
      '{"text":"kind"}'
    ],
    ['a module with a query', 'prompt.ts', `import text from './prompt.ts?raw'`, 'export default 1', 'export default 2']
  ])('of kind %s reloads the provider that imports it, and no other', async (_, file, head, before, after) => {
    const app = await createApp({ ...files, 'agents.ts': service('agents', 'seq.push(text)', head), [file]: before })
    await app.next('ready')
    const report = await app.edit(file, after)
    expect(report).toMatchObject({ outcome: 'reloaded', providers: [{ name: 'agents', from: 1, to: 2 }] })
    expect(seq.at(-1)).toContain(after.replace(/[^a-z0-9 ]|text/g, '').trim())
    expect(siblings()).toEqual(['sibling 1 up'])
    expect((await app.edit(file, before)).outcome).toBe('reloaded')
  })
})

describe('a dynamic import', () => {
  const late = (specifier: string) =>
    service('agents', `ctx.provide('late', async () => (await import(${specifier})).late)`)
  const call = (app: App) => promptly(app.service<() => Promise<string>>('late')(), 'late import')

  test('that has run makes its module part of the graph, and one that runs after a reload gets the newest', async () => {
    const app = await createApp({
      ...files,
      'agents.ts': late(`'./late.ts'`),
      'late.ts': `seq.push('late evaluated')\nexport const late = 'late 1'`
    })
    await app.next('ready')
    const old = app.service<() => Promise<string>>('late')
    expect(await call(app)).toBe('late 1')
    const report = await app.edit('late.ts', source => source.replace('late 1', 'late 2'))
    expect(report).toMatchObject({ outcome: 'reloaded', providers: [{ name: 'agents' }] })
    expect(await call(app)).toBe('late 2')
    expect(await old()).toBe('late 2')
    await app.edit('agents.ts', bump)
    expect(await call(app)).toBe('late 2')
    expect((await app.edit('late.ts', source => source.replace('late 2', 'late 3'))).outcome).toBe('reloaded')
    expect(await call(app)).toBe('late 3')
    expect(seq.filter(line => line === 'late evaluated')).toHaveLength(3)
  })

  test('that has not run yet gets the newest content and touches nothing before', async () => {
    const app = await createApp({
      ...files,
      'agents.ts': late(`'./late.ts'`),
      'late.ts': `export const late = 'late 1'`
    })
    await app.next('ready')
    app.write('late.ts', `export const late = 'late 2'`)
    expect((await app.edit('sibling.ts', bump)).providers).toMatchObject([{ name: 'sibling' }])
    expect(await call(app)).toBe('late 2')
  })

  test('that the old version began while the reload ran does not hold the new one back', async () => {
    const app = await createApp({
      ...files,
      'agents.ts': late(`'./late.ts'`),
      'late.ts': `gate('evaluating').resolve()\nawait gate('evaluate').promise\nexport const late = 'late 1'`
    })
    await app.next('ready')
    const first = call(app)
    await gate('evaluating').promise
    expect((await app.edit('agents.ts', bump)).outcome).toBe('reloaded')
    gate('evaluate').resolve()
    expect(await first).toBe('late 1')
    expect(await call(app)).toBe('late 1')
    expect((await app.edit('late.ts', `export const late = 'late 2'`)).outcome).toBe('reloaded')
    expect(await call(app)).toBe('late 2')
  })
})

/** Resolves when the watcher looks at a file outside of root; chokidar gives no signal for that. */
const watched = (app: App, file: string) =>
  vi.waitUntil(() =>
    Object.entries(app.server.watcher.getWatched()).some(([dir, names]) => names.some(name => join(dir, name) === file))
  )

describe('code outside of root', () => {
  test('in a linked workspace package reloads the provider that imports it', async () => {
    const linked = createFolder({
      'package.json': '{ "name": "linked", "type": "module", "exports": "./index.ts" }',
      'index.ts': `export * from './leaf.ts'`,
      'leaf.ts': `export const leaf = 'leaf 1'`
    })
    const app = await createApp(
      {
        'app/agents.ts': service('agents', 'seq.push(leaf)', `import { leaf } from 'linked'`),
        'sibling.ts': files['sibling.ts'],
        'harness.ts': composing('./app/agents.ts', './sibling.ts'),
        'app/node_modules/.keep': ''
      },
      {},
      {
        plugins: [
          {
            name: 'link',
            configResolved: ({ root }) => symlinkSync(linked, join(root, 'app/node_modules/linked'), 'junction')
          }
        ]
      }
    )
    await app.next('ready')
    expect(seq).toContain('leaf 1')
    await watched(app, join(linked, 'leaf.ts'))
    writeFileSync(join(linked, 'leaf.ts'), `export const leaf = 'leaf 2'`)
    expect(await app.next('reload')).toMatchObject({ outcome: 'reloaded', providers: [{ name: 'agents' }] })
    expect(seq.at(-1)).toBe('leaf 2')
    expect(siblings()).toEqual(['sibling 1 up'])
  })

  test('in a plain file reloads the provider that imports it', async () => {
    const outside = createFolder({ 'shared.ts': `export const shared = 'shared 1'` })
    const app = await createApp({
      ...files,
      'agents.ts': service('agents', 'seq.push(shared)', `import { shared } from '${outside}/shared.ts'`)
    })
    await app.next('ready')
    await watched(app, join(outside, 'shared.ts'))
    writeFileSync(join(outside, 'shared.ts'), `export const shared = 'shared 2'`)
    expect(await app.next('reload')).toMatchObject({ outcome: 'reloaded', providers: [{ name: 'agents' }] })
    expect(seq.at(-1)).toBe('shared 2')
  })
})

describe("another plugin's module", () => {
  const virtual = (load: Plugin['load']): Plugin => ({
    name: 'virtual',
    resolveId: id => (id === 'virtual:tools' ? '\0virtual:tools' : undefined),
    load
  })
  const uses = {
    ...files,
    'agents.ts': service('agents', 'seq.push(tools)', `import { tools } from 'virtual:tools'`),
    'tools.list': 'a b'
  }

  test('that is virtual and made from a watched file is replaced when that file is saved', async () => {
    const plugin = virtual(function load(id) {
      if (id !== '\0virtual:tools') return undefined
      const file = join(this.environment.config.root, 'tools.list')
      this.addWatchFile(file)
      return `export const tools = ${JSON.stringify(readFileSync(file, 'utf8'))}`
    })
    const app = await createApp(uses, {}, { plugins: [plugin] })
    await app.next('ready')
    expect(seq).toContain('a b')
    app.write('tools.list', 'a b c')
    expect(await promptly(app.next('reload'), 'a reload', 1000)).toMatchObject({
      outcome: 'reloaded',
      providers: [{ name: 'agents' }]
    })
    expect(seq.at(-1)).toBe('a b c')
  })

  // `hotUpdate` in index.ts looks at the file alone, before other plugins have said what it stands for.
  test('that is virtual is replaced when its plugin answers a save with it', async () => {
    const plugin: Plugin = {
      ...virtual(function load(id) {
        return id === '\0virtual:tools'
          ? `export const tools = ${JSON.stringify(readFileSync(join(this.environment.config.root, 'tools.list'), 'utf8'))}`
          : undefined
      }),
      hotUpdate({ file }) {
        const module = this.environment.moduleGraph.getModuleById('\0virtual:tools')
        return file.endsWith('tools.list') && module ? [module] : undefined
      }
    }
    const app = await createApp(uses, {}, { plugins: [plugin] })
    await app.next('ready')
    app.write('tools.list', 'a b c')
    expect(await promptly(app.next('reload'), 'a reload', 1000)).toMatchObject({
      outcome: 'reloaded',
      providers: [{ name: 'agents' }]
    })
    expect(seq.at(-1)).toBe('a b c')
  })

  test('whose transform adds a file to watch is replaced when that file is saved', async () => {
    const plugin: Plugin = {
      name: 'include',
      transform(code, id) {
        if (!code.includes('__INCLUDE__')) return undefined
        const file = join(id, '../tools.list')
        this.addWatchFile(file)
        return code.replace('__INCLUDE__', JSON.stringify(readFileSync(file, 'utf8')))
      }
    }
    const app = await createApp(
      { ...uses, 'agents.ts': service('agents', 'seq.push(__INCLUDE__)') },
      {},
      { plugins: [plugin] }
    )
    await app.next('ready')
    app.write('tools.list', 'a b c')
    expect(await promptly(app.next('reload'), 'a reload', 1000)).toMatchObject({
      outcome: 'reloaded',
      providers: [{ name: 'agents' }]
    })
    expect(seq.at(-1)).toBe('a b c')
  })
})
