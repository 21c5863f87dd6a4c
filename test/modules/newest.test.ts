/** What counts as changed, and that the newest of it runs. */
import { join } from 'node:path'
import { describe, expect, test } from 'vitest'
import { createApp, seq } from '../fixtures/app.ts'
import { bump, composing, reportsUntil, service } from '../fixtures/field-fixture.ts'
import { anyPort } from '../fixtures/port.ts'

const files = {
  'harness.ts': composing('./agents.ts', './sibling.ts'),
  'agents.ts': service('agents'),
  'sibling.ts': service('sibling')
}

test('a saved module that a broken provider imports lazily, and never has, leaves its old version alone', async () => {
  const app = await createApp({
    ...files,
    'agents.ts': service('agents', `ctx.provide('late', () => import('./lazy.ts'))`),
    'lazy.ts': `export const lazy = 1`
  })
  await app.next('ready')
  const agents = app.service('agents')
  expect((await app.edit('agents.ts', source => `${source}\n =`)).outcome).toBe('kept')
  const mark = seq.length
  app.write('lazy.ts', `export const lazy = 2`)
  // Together with the broken one, and then alone.
  expect((await app.next('reload')).outcome).toBe('kept')
  expect(await app.next('reload')).toMatchObject({ outcome: 'ignored', providers: [] })
  expect(app.service('agents')).toBe(agents)
  expect(seq.slice(mark)).toEqual([])
  const late = app.service<() => Promise<{ lazy: number }>>('late')
  expect((await late()).lazy).toBe(2)
})

test('lines above a throw that make no code are not run, and the next stack shows where it is now', async () => {
  const failing = service('agents', `ctx.provide('fail', () => new Error('here'))`)
  const line = failing.split('\n').findIndex(text => text.includes('here')) + 1
  const app = await createApp({ ...files, 'agents.ts': failing })
  await app.next('ready')
  const fail = app.service<() => Error>('fail')
  expect(fail().stack).toContain(`${join(app.root, 'agents.ts')}:${line}:`)
  app.write('agents.ts', `\n\ninterface Added {\n  one: 1\n}\n${failing}`)
  expect(await app.next('reload')).toMatchObject({ outcome: 'ignored', reason: { code: 'same' } })
  expect(app.service('fail')).toBe(fail)
  expect(fail().stack).toContain(`${join(app.root, 'agents.ts')}:${line + 5}:`)
})

describe('a file that was written while the watcher did not hear of it', () => {
  const leaf = (n: number) => `export const leaf = 'leaf ${n}'`
  const uses = {
    ...files,
    'agents.ts': service('agents', `ctx.provide('leaf', () => leaf)`, `import { leaf } from './between.ts'`),
    'between.ts': `export * from './leaf.ts'`,
    'leaf.ts': leaf(1),
    'other.ts': service('other', 'seq.push(leaf)', `import { leaf } from './leaf.ts'`),
    'harness.ts': composing('./agents.ts', './sibling.ts', './other.ts')
  }
  const open = async () => {
    const server = { port: anyPort(), host: '127.0.0.1', watch: { ignored: ['**/leaf.ts'] } }
    const app = await createApp(uses, {}, { server })
    await app.next('ready')
    // What is written while it boots is found without a watcher: a save that is heard comes after that.
    await app.edit('sibling.ts', bump)
    return app
  }

  test('runs with the next save of what imports it, also where others import it', async () => {
    const app = await open()
    app.write('leaf.ts', leaf(2))
    const report = await app.edit('agents.ts', bump)
    expect(report.providers.map(({ name }) => name)).toEqual(['agents', 'other'])
    expect(app.service<() => string>('leaf')()).toBe('leaf 2')
    expect(seq.at(-1)).toBe('leaf 2')
    expect((await app.edit('agents.ts', bump)).providers).toHaveLength(1)
  })

  test('is left alone when its text is the same, or when what is saved does not import it', async () => {
    const app = await open()
    app.write('leaf.ts', leaf(1))
    expect((await app.edit('agents.ts', bump)).providers).toHaveLength(1)
    app.write('leaf.ts', leaf(2))
    expect((await app.edit('sibling.ts', bump)).providers).toHaveLength(1)
    expect(app.service<() => string>('leaf')()).toBe('leaf 1')
  })

  test('and is broken keeps the old versions, and comes live with the save after it is mended', async () => {
    const app = await open()
    app.write('leaf.ts', `export const leaf =`)
    const kept = await app.edit('agents.ts', bump)
    expect(kept).toMatchObject({
      outcome: 'kept',
      error: { step: 'stage', location: { file: join(app.root, 'leaf.ts') } }
    })
    expect(app.service<() => string>('leaf')()).toBe('leaf 1')
    app.write('leaf.ts', leaf(2))
    expect((await app.edit('agents.ts', bump)).outcome).toBe('reloaded')
    expect(app.service<() => string>('leaf')()).toBe('leaf 2')
  })
})

test('a branch of 360 files that is switched back and forth in one burst runs whole each time', async () => {
  const names = Array.from({ length: 60 }, (_, i) => `p${i}`)
  const branch = (n: string): Record<string, string> =>
    Object.fromEntries<string>(
      names.flatMap<[file: string, source: string]>(name => {
        const helpers = Array.from({ length: 5 }, (_, i) => `${name}h${i}`)
        const imports = helpers.map(helper => `import { value as ${helper} } from './${helper}.ts'`).join('\n')
        return [
          [`${name}.ts`, service(name, `ctx.provide('of ${name}', ['${n}', ${helpers.join()}])`, imports)],
          ...helpers.map((helper): [string, string] => [`${helper}.ts`, `export const value = '${n}'`])
        ]
      })
    )
  const app = await createApp({ ...branch('main'), 'harness.ts': composing(...names.map(name => `./${name}.ts`)) })
  await app.next('ready')
  const running = () => new Set(names.flatMap(name => app.service<unknown[]>(`of ${name}`)))
  for (const n of ['topic', 'main', 'topic', 'main', 'topic']) {
    for (const [file, source] of Object.entries(branch(n))) app.write(file, source)
    await reportsUntil(app, () => running().size === 1 && running().has(n))
  }
  const outcomes = new Set(app.harness.service.reports.map(({ outcome }) => outcome))
  expect(outcomes).not.toContain('rolled-back')
  expect(outcomes).not.toContain('kept')
}, 60_000)
