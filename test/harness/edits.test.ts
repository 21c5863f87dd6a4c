import { mkdirSync, renameSync, rmSync, unlinkSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, test } from 'vitest'
import { type App, createApp, gate, seq } from '../fixtures/app.ts'
import { bump, composing, reportsUntil, service } from '../fixtures/field-fixture.ts'
import { promptly } from '../promptly.ts'

const files = {
  'harness.ts': composing('./agents.ts', './tools.ts', './sibling.ts'),
  'agents.ts': service('agents'),
  'tools.ts': service('tools'),
  'sibling.ts': service('sibling')
}
const later = (ms: number) => new Promise(resolve => setTimeout(resolve, ms))
const versions = (app: App) => ['agents', 'tools', 'sibling'].map(name => app.service(name)?.['version'])

test('a save that truncates the file and writes 5 ms later never runs the empty file', async () => {
  const helper = (n: number) => `export const helper = 'helper ${n}'`
  const app = await createApp({
    ...files,
    'agents.ts': service('agents', `seq.push(String(helper))`, `import { helper } from './helper.ts'`),
    'helper.ts': helper(0)
  })
  await app.next('ready')
  for (let i = 1; i <= 8; i++) {
    const isHelper = i % 2 === 1
    const file = join(app.root, isHelper ? 'helper.ts' : 'tools.ts')
    writeFileSync(file, '')
    await later(5)
    writeFileSync(file, isHelper ? helper(i) : service('tools').replace('= 1', `= ${i}`))
    const reports = await reportsUntil(app, () => (isHelper ? seq.includes(`helper ${i}`) : versions(app)[1] === i))
    expect(reports.map(({ outcome }) => outcome).filter(outcome => outcome !== 'ignored')).toEqual(['reloaded'])
  }
  expect(seq).not.toContain('undefined')
})

test('a file that is saved, then imported, then saved again within 50 ms ends with the second content', async () => {
  const late = service('agents', `ctx.provide('late', () => import('./late.ts'))`)
  const seen = { name: 'seen', hotUpdate: () => gate('seen').resolve() }
  const app = await createApp({ ...files, 'agents.ts': late, 'late.ts': `seq.push('unused')` }, {}, { plugins: [seen] })
  await app.next('ready')
  app.write('late.ts', `seq.push('draft')`)
  await gate('seen').promise
  await app.service<() => Promise<void>>('late')()
  app.write('late.ts', `seq.push('final')`)
  // The first save may be announced only now: its content runs already, or its reload is given up for the second.
  let report = await promptly(app.next('reload'), 'a reload', 1000)
  while (report.outcome !== 'reloaded') report = await promptly(app.next('reload'), 'a reload', 1000)
  await app.service<() => Promise<void>>('late')()
  expect(seq.at(-1)).toBe('final')
})

test('a save by a temporary file and a rename is one reload', async () => {
  const app = await createApp(files)
  await app.next('ready')
  for (let version = 2; version < 5; version++) {
    app.write('.agents.ts.tmp', files['agents.ts'].replace('version = 1', `version = ${version}`))
    renameSync(join(app.root, '.agents.ts.tmp'), join(app.root, 'agents.ts'))
    const reports = await reportsUntil(app, () => versions(app)[0] === version)
    expect(reports.filter(({ outcome }) => outcome !== 'ignored')).toMatchObject([{ outcome: 'reloaded' }])
  }
})

describe('a deleted file', () => {
  test('keeps its provider serving until it is written again', async () => {
    const app = await createApp(files)
    await app.next('ready')
    const agents = app.service('agents')
    unlinkSync(join(app.root, 'agents.ts'))
    expect((await app.next('reload')).outcome).toBe('kept')
    expect(app.service('agents')).toBe(agents)
    app.write('agents.ts', bump(files['agents.ts']))
    await reportsUntil(app, () => versions(app)[0] === 2)
  })

  test('that is written again with the same content is mended, and changes nothing', async () => {
    const app = await createApp(files)
    await app.next('ready')
    const agents = app.service('agents')
    unlinkSync(join(app.root, 'agents.ts'))
    expect((await app.next('reload')).outcome).toBe('kept')
    app.write('agents.ts', files['agents.ts'])
    expect((await app.next('reload')).outcome).toBe('mended')
    expect(app.service('agents')).toBe(agents)
    expect((await app.edit('tools.ts', bump)).outcome).toBe('reloaded')
  })

  test('with its whole directory keeps the old provider until the directory is rebuilt', async () => {
    const app = await createApp({
      'harness.ts': composing('./providers/agents.ts', './sibling.ts'),
      'providers/agents.ts': service('agents', 'seq.push(helper)', `import { helper } from './helper.ts'`),
      'providers/helper.ts': `export const helper = 'helped'`,
      'sibling.ts': files['sibling.ts']
    })
    await app.next('ready')
    const agents = app.service('agents')
    rmSync(join(app.root, 'providers'), { recursive: true })
    expect((await app.next('reload')).outcome).toBe('kept')
    expect(app.service('agents')).toBe(agents)
    mkdirSync(join(app.root, 'providers'))
    app.write('providers/helper.ts', `export const helper = 'helped again'`)
    app.write(
      'providers/agents.ts',
      bump(service('agents', 'seq.push(helper)', `import { helper } from './helper.ts'`))
    )
    await reportsUntil(app, () => app.service('agents')['version'] === 2)
    expect(seq.slice(-3)).toEqual(['agents 1 down', 'agents 2 up', 'helped again'])
    expect(seq.filter(line => line.startsWith('sibling'))).toEqual(['sibling 1 up'])
  })
})

describe('a provider that is renamed', () => {
  const nested = {
    ...files,
    'harness.ts': composing('./parent.ts', './sibling.ts'),
    'parent.ts': composing('./agents.ts')
  }
  const moved = composing('./renamed.ts')

  test('comes live when its importer is saved with it, and siblings stay', async () => {
    const app = await createApp(nested)
    await app.next('ready')
    renameSync(join(app.root, 'agents.ts'), join(app.root, 'renamed.ts'))
    app.write('renamed.ts', bump(files['agents.ts']))
    app.write('parent.ts', moved)
    await reportsUntil(app, () => versions(app)[0] === 2)
    expect(seq.filter(line => line.startsWith('agents'))).toEqual(['agents 1 up', 'agents 1 down', 'agents 2 up'])
    expect(seq.filter(line => line.startsWith('sibling'))).toEqual(['sibling 1 up'])
    await app.edit('renamed.ts', bump)
    expect(versions(app)[0]).toBe(3)
  })

  test('serves until its importer is saved, and its old file is of no account after that', async () => {
    const app = await createApp(nested)
    await app.next('ready')
    renameSync(join(app.root, 'agents.ts'), join(app.root, 'renamed.ts'))
    expect((await app.next('reload')).outcome).toBe('kept')
    expect(versions(app)[0]).toBe(1)
    app.write('renamed.ts', bump(files['agents.ts']))
    app.write('parent.ts', moved)
    await reportsUntil(app, () => versions(app)[0] === 2)
    const report = await app.edit('sibling.ts', bump)
    expect(report).toMatchObject({ outcome: 'reloaded', providers: [{ name: 'sibling' }] })
    expect(await app.edit('renamed.ts', bump)).toMatchObject({
      outcome: 'reloaded',
      cause: [join(app.root, 'renamed.ts')]
    })
  })
})

describe('a provider that gets another ending, and is imported without one,', () => {
  const uses = {
    ...files,
    'harness.ts': composing('./agents', './sibling.ts')
  }

  test.each([
    ['the entry', 'restarted', uses],
    [
      'a provider that composes it',
      'reloaded',
      { ...files, 'harness.ts': composing('./parent.ts', './sibling.ts'), 'parent.ts': composing('./agents') }
    ]
  ])('by %s, is %s at its new place, and reloads there', async (_, outcome, sources) => {
    const app = await createApp(sources)
    await app.next('ready')
    renameSync(join(app.root, 'agents.ts'), join(app.root, 'agents.tsx'))
    await reportsUntil(app, () => app.harness.running!.host.modulesOf(join(app.root, 'agents.tsx')).length > 0)
    expect(app.harness.service.reports.at(-1)).toMatchObject({ outcome, cause: [join(app.root, 'agents.ts')] })
    expect(app.harness.service.status.dirty).toEqual([])
    expect(await app.edit('agents.tsx', bump)).toMatchObject({ outcome: 'reloaded', providers: [{ name: 'agents' }] })
    expect(versions(app)[0]).toBe(2)
    expect(app.harness.running!.host.modulesOf(join(app.root, 'agents.ts'))).toEqual([])
  })

  test('comes live when the new file is written after the old one was found gone', async () => {
    const app = await createApp(uses)
    await app.next('ready')
    rmSync(join(app.root, 'agents.ts'))
    expect((await app.next('reload')).outcome).toBe('kept')
    app.write('agents.tsx', bump(files['agents.ts']))
    await reportsUntil(app, () => versions(app)[0] === 2)
    expect(app.harness.service.status.dirty).toEqual([])
  })

  test('is kept while somebody imports it with the old ending', async () => {
    const app = await createApp({
      ...uses,
      'sibling.ts': service('sibling', '', `import Agents from './agents.ts'\nexport const kept = Agents.name`)
    })
    await app.next('ready')
    renameSync(join(app.root, 'agents.ts'), join(app.root, 'agents.tsx'))
    expect(await app.next('reload')).toMatchObject({ outcome: 'kept', error: { step: 'stage' } })
    expect(versions(app)[0]).toBe(1)
  })
})

test('two providers and a leaf that they share, saved at once, are one reload with one apply each', async () => {
  const uses = (name: string) =>
    service(name, 'seq.push(name + leaf)', `import { leaf } from './leaf.ts'\nconst name = '${name}'`)
  const app = await createApp({
    ...files,
    'agents.ts': uses('agents'),
    'tools.ts': uses('tools'),
    'leaf.ts': `export const leaf = ' leaf 1'`
  })
  await app.next('ready')
  seq.length = 0
  const sibling = app.service('sibling')
  app.write('agents.ts', bump(uses('agents')))
  app.write('leaf.ts', `export const leaf = ' leaf 2'`)
  app.write('tools.ts', bump(uses('tools')))
  const reports = await reportsUntil(app, () => seq.includes('tools leaf 2') && versions(app).join() === '2,2,1')
  expect(seq.toSorted()).toEqual([
    'agents 1 down',
    'agents 2 up',
    'agents leaf 2',
    'tools 1 down',
    'tools 2 up',
    'tools leaf 2'
  ])
  expect(reports.filter(({ outcome }) => outcome === 'reloaded')).toHaveLength(1)
  expect(app.service('sibling')).toBe(sibling)
})

test('a sibling that streams is not interrupted by a reload, however long it drains', async () => {
  const streams = `ctx.provide('stream', async function* () { for (let i = 0; ; i++) { await gate('chunk ' + i).promise; yield i } })`
  const app = await createApp({
    ...files,
    'agents.ts': service('agents', `ctx.effect(() => () => (gate('draining').resolve(), gate('drain').promise))`),
    'sibling.ts': service('sibling', streams)
  })
  await app.next('ready')
  const stream = app.service<() => AsyncGenerator<number>>('stream')()
  const read = async (i: number) => {
    gate(`chunk ${i}`).resolve()
    return (await promptly(stream.next(), `chunk ${i}`)).value as number
  }
  expect(await read(0)).toBe(0)
  const reloading = app.edit('agents.ts', bump)
  await gate('draining').promise
  expect(await read(1)).toBe(1)
  gate('drain').resolve()
  await reloading
  expect(await read(2)).toBe(2)
  expect(seq.filter(line => line.startsWith('sibling'))).toEqual(['sibling 1 up'])
})
