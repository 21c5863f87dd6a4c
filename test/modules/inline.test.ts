/** Packages in node_modules that are evaluated and reloaded like the harness' own modules. */
import { mkdirSync, rmSync, symlinkSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { describe, expect, test } from 'vitest'
import { type App, createApp, seq } from '../fixtures/app.ts'
import { bump, composing, service } from '../fixtures/field-fixture.ts'
import { promptly, turn } from '../promptly.ts'

const helper = (n: number) => `seq.push('helper is evaluated')\nexport const helper = 'helper ${n}'`
const deep = (n: number) => `export const deep = 'deep ${n}'`
const packageOf = (name: string) => ({
  [`node_modules/${name}/package.json`]: `{ "name": "${name}", "version": "1.0.0", "type": "module", "main": "index.js" }`,
  [`node_modules/${name}/index.js`]: helper(1),
  [`node_modules/${name}/sub/x.js`]: deep(1)
})
const using = (name: string) => ({
  'harness.ts': composing('./agents.ts', './sibling.ts'),
  'agents.ts': service(
    'agents',
    `ctx.provide('used', () => helper + ' ' + deep)`,
    `import { helper } from '${name}'\nimport { deep } from '${name}/sub/x.js'`
  ),
  'sibling.ts': service('sibling')
})
const used = (app: App) => app.service<() => string>('used')()

/** The package's folder is watched a moment after the harness is up. */
async function untilWatched(app: App, name: string): Promise<void> {
  const folder = join(app.root, 'node_modules', name)
  const watched = async () => {
    while (!Object.hasOwn(app.server.watcher.getWatched(), join(folder, 'sub'))) await turn()
  }
  await promptly(watched(), `the watcher to come to "${name}"`)
}

describe.each(['helper', '@acme/helper'])('the inlined package "%s"', name => {
  const files = { ...using(name), ...packageOf(name), ...packageOf(`${name}-two`) }

  test('reloads who imports it when it is edited in place, also by a deep import, and is evaluated once', async () => {
    const app = await createApp(files, { inline: [name] })
    await app.next('ready')
    await untilWatched(app, name)
    const sibling = app.service('sibling')
    expect(used(app)).toBe('helper 1 deep 1')
    expect(await app.edit(`node_modules/${name}/index.js`, helper(2))).toMatchObject({
      outcome: 'reloaded',
      providers: [{ name: 'agents' }]
    })
    expect(used(app)).toBe('helper 2 deep 1')
    expect((await app.edit(`node_modules/${name}/sub/x.js`, deep(2))).outcome).toBe('reloaded')
    expect(used(app)).toBe('helper 2 deep 2')
    // It is still in the graph when only its importer was replaced.
    expect((await app.edit('agents.ts', bump)).outcome).toBe('reloaded')
    expect((await app.edit(`node_modules/${name}/index.js`, helper(3))).outcome).toBe('reloaded')
    expect(used(app)).toBe('helper 3 deep 2')
    expect(app.service('sibling')).toBe(sibling)
    expect(seq.filter(line => line === 'helper is evaluated')).toHaveLength(3)
  })

  test('reloads who imports it when it is removed and written again', async () => {
    const app = await createApp(files, { inline: [name] })
    await app.next('ready')
    await untilWatched(app, name)
    for (const n of [2, 3]) {
      rmSync(join(app.root, 'node_modules', name), { recursive: true })
      for (const [file, source] of Object.entries(packageOf(name))) app.write(file, source)
      app.write(`node_modules/${name}/index.js`, helper(n))
      app.write(`node_modules/${name}/sub/x.js`, deep(n))
      while (used(app) !== `helper ${n} deep ${n}`) await app.next('reload')
      await untilWatched(app, name)
    }
    expect(app.harness.service.status.dirty).toEqual([])
  })

  test('is not the package whose name begins alike', async () => {
    const app = await createApp({ ...files, ...using(`${name}-two`) }, { inline: [name] })
    await app.next('ready')
    expect(app.harness.running!.host.files().filter(file => file.includes('node_modules'))).toEqual([])
  })
})

test('a package that a pattern inlines is watched like one that is named', async () => {
  const app = await createApp({ ...using('helper'), ...packageOf('helper') }, { inline: [/node_modules\/help/] })
  await app.next('ready')
  await untilWatched(app, 'helper')
  expect((await app.edit('node_modules/helper/index.js', helper(2))).outcome).toBe('reloaded')
  expect(used(app)).toBe('helper 2 deep 1')
})

test('a package that is not inlined is left to Node: a save there does nothing and says nothing', async () => {
  const app = await createApp({ ...using('helper'), ...packageOf('helper') })
  await app.next('ready')
  const lines = app.lines.length
  app.write('node_modules/helper/index.js', helper(2))
  expect((await app.edit('sibling.ts', bump)).providers).toMatchObject([{ name: 'sibling' }])
  expect(app.harness.service.reports).toHaveLength(1)
  expect(app.lines.slice(lines)).toHaveLength(1)
  expect(used(app)).toBe('helper 1 deep 1')
})

test('a package of the workspace that node_modules links to reloads who imports it by its name', async () => {
  const app = await createApp(
    {
      ...using('helper'),
      'packages/helper/package.json': packageOf('helper')['node_modules/helper/package.json']!,
      'packages/helper/index.js': helper(1),
      'packages/helper/sub/x.js': deep(1)
    },
    {},
    {
      plugins: [
        {
          name: 'link',
          configResolved({ root }) {
            const link = join(root, 'node_modules/helper')
            mkdirSync(dirname(link), { recursive: true })
            symlinkSync(join(root, 'packages/helper'), link, 'junction')
          }
        }
      ]
    }
  )
  await app.next('ready')
  expect(used(app)).toBe('helper 1 deep 1')
  expect((await app.edit('packages/helper/index.js', helper(2))).outcome).toBe('reloaded')
  expect((await app.edit('packages/helper/sub/x.js', deep(2))).outcome).toBe('reloaded')
  expect(used(app)).toBe('helper 2 deep 2')
})
