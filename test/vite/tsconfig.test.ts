/** A saved tsconfig changes what providers are compiled to, and where their imports lead. */
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, test, vi } from 'vitest'
import type { ReloadReport } from '../../plugin/index.ts'
import { type App, createApp, createFolder, seq } from '../fixtures/app.ts'
import { bump, composing, service } from '../fixtures/field-fixture.ts'

/** `"defined"` where a field that is only declared is set to `undefined`, as `useDefineForClassFields` asks for. */
const fields = (name: string) =>
  service(
    name,
    `seq.push(Object.hasOwn(new Fields(), 'declared') ? 'defined' : 'assigned')`,
    'class Fields { declared?: string }'
  )
const options = (useDefineForClassFields: boolean) =>
  JSON.stringify({ compilerOptions: { useDefineForClassFields, target: 'esnext' } })
const files = {
  'harness.ts': composing('./agents.ts', './tools.js'),
  'agents.ts': fields('agents'),
  'tools.js': `export default function tools() { seq.push('tools up') }`
}

async function boot(more: Record<string, string>): Promise<App> {
  const app = await createApp({ ...files, ...more })
  expect((await app.next('ready')).failed).toEqual([])
  seq.length = 0
  return app
}

/** What a reload replaced. */
const replaced = ({ outcome, providers }: ReloadReport) => `${outcome} ${providers.map(({ name }) => name).join(' ')}`
const flipped = ['agents 1 down', 'agents 1 up', 'defined']

describe('a flipped `useDefineForClassFields`', () => {
  test('in tsconfig.json reloads the providers that are compiled otherwise, and no other', async () => {
    const app = await boot({ 'tsconfig.json': options(false) })
    app.write('tsconfig.json', options(true))
    expect(replaced(await app.next('reload'))).toBe('reloaded agents')
    expect(seq).toEqual(flipped)
    app.write('tsconfig.json', options(false))
    expect(replaced(await app.next('reload'))).toBe('reloaded agents')
    expect(seq).toEqual([...flipped, 'agents 1 down', 'agents 1 up', 'assigned'])
  })

  test.each([
    ['the base that it extends', { 'tsconfig.json': '{ "extends": "./base.json" }' }],
    [
      'the base of one of its bases',
      {
        'tsconfig.json': `{ // as people write it\n "extends": ["./other.json", "./middle"], }`,
        'other.json': '{}',
        'middle.json': '{ "extends": "./base" }'
      }
    ],
    ['a project that it refers to', { 'tsconfig.json': '{ "files": [], "references": [{ "path": "./base.json" }] }' }]
  ])('in %s does the same', async (_, more) => {
    const app = await boot({ ...more, 'base.json': options(false) })
    app.write('base.json', options(true))
    expect(replaced(await app.next('reload'))).toBe('reloaded agents')
    expect(seq).toEqual(flipped)
  })

  // chokidar drops what comes within 50 ms.
  test.each(['tsconfig.json', 'base.json'])('in a %s that is empty for a moment does the same', async file => {
    const app = await boot({
      'tsconfig.json': '{ "extends": "./base.json" }',
      'base.json': '{}',
      [file]: options(false)
    })
    const isNoticed = vi.waitUntil(() => app.lines.some(line => line.includes('changed tsconfig')), { interval: 1 })
    app.write(file, '')
    await isNoticed
    await app.harness.idle()
    app.write(file, options(true))
    while (!seq.includes('defined')) await app.next('reload')
    expect(seq.at(-1)).toBe('defined')
  })

  test('in a base outside of the root does the same', async () => {
    const outside = createFolder({ 'base.json': options(false) })
    const app = await boot({ 'tsconfig.json': JSON.stringify({ extends: join(outside, 'base.json') }) })
    await vi.waitUntil(() => app.server.watcher.getWatched()[outside]?.includes('base.json'), { timeout: 5000 })
    writeFileSync(join(outside, 'base.json'), options(true))
    expect(replaced(await app.next('reload'))).toBe('reloaded agents')
    expect(seq).toEqual(flipped)
  })

  test('reloads the others while a provider is broken, and that one when it is mended', async () => {
    const app = await boot({
      'harness.ts': composing('./agents.ts', './broken.ts'),
      'broken.ts': fields('broken'),
      'tsconfig.json': options(false)
    })
    expect((await app.edit('broken.ts', source => `${source}\n}`)).outcome).toBe('kept')
    app.write('tsconfig.json', options(true))
    await app.next('reload')
    expect(replaced(await app.next('reload'))).toBe('reloaded agents')
    expect(seq).toEqual(flipped)
    await app.edit('broken.ts', bump(fields('broken')))
    expect(seq).toEqual([...flipped, 'broken 1 down', 'broken 2 up', 'defined'])
  })
})

describe('a base that is broken', () => {
  test('keeps what runs, and reloads it when it is mended', async () => {
    const app = await boot({ 'tsconfig.json': '{ "extends": "./base.json" }', 'base.json': options(false) })
    app.write('base.json', '{ "compilerOptions": ')
    expect((await app.next('reload')).outcome).toBe('kept')
    expect(seq).toEqual([])
    app.write('base.json', options(true))
    expect(replaced(await app.next('reload'))).toBe('reloaded agents')
    expect(seq).toEqual(flipped)
  })
})

describe('`paths` that lead elsewhere', () => {
  const paths = (folder: string) => JSON.stringify({ compilerOptions: { paths: { '#lib/*': [`./${folder}/*`] } } })
  const lib = (name: string) => `export const lib = '${name}'`
  const more = {
    'agents.ts': service('agents', 'seq.push(lib)', `import { lib } from '#lib/name'`),
    'one/name.ts': lib('one'),
    'two/name.ts': lib('two')
  }
  const start = (tsconfigs: Record<string, string>) =>
    createApp({ ...files, ...more, ...tsconfigs }, {}, { resolve: { tsconfigPaths: true } })

  test.each([
    ['tsconfig.json', {}],
    ['base.json', { 'tsconfig.json': '{ "extends": "./base.json" }' }]
  ])('in %s reload the providers that import through them', async (file, tsconfigs) => {
    const app = await start({ ...tsconfigs, [file]: paths('one') })
    await app.next('ready')
    expect(seq).toContain('one')
    seq.length = 0
    app.write(file, paths('two'))
    expect(replaced(await app.next('reload'))).toBe('reloaded agents')
    expect(seq).toEqual(['agents 1 down', 'agents 1 up', 'two'])
  })

  test('mend a harness that could not boot', async () => {
    const app = await start({ 'tsconfig.json': paths('none') })
    await app.next('failed')
    app.write('tsconfig.json', paths('two'))
    await app.next('ready')
    expect(seq).toContain('two')
  })
})

test('a tsconfig that changes nothing for what runs is no reload', async () => {
  const app = await boot({ 'tsconfig.json': options(false) })
  app.write('tsconfig.json', `${options(false)}\n`)
  await vi.waitUntil(() => app.lines.some(line => line.includes('changed tsconfig')), { timeout: 5000 })
  await app.edit('agents.ts', bump)
  expect(app.harness.service.reports.map(replaced)).toEqual(['reloaded agents'])
})
