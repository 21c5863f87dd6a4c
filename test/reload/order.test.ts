/** The order in which providers are shown: that of the composition, whatever was reloaded. */
import { expect, test } from 'vitest'
import { overview } from '../../plugin/page/server/overview.ts'
import { providerLines } from '../../plugin/vite/shortcuts.ts'
import { type App, createApp } from '../fixtures/app.ts'
import { bump, composing, service } from '../fixtures/field-fixture.ts'

const files = {
  'harness.ts': composing('./a.ts', './b.ts', './c.ts'),
  'a.ts': service('a'),
  'b.ts': service('b', 'ctx.plugin(X); ctx.plugin(Y)', `import X from './x.ts'\nimport Y from './y.ts'`),
  'c.ts': service('c'),
  'x.ts': service('x'),
  'y.ts': service('y')
}
const order = ['harness', 'a', 'b', 'x', 'y', 'c']

/** As the page, the terminal and `ctx.harnessHmr` show it. */
function shown({ harness }: App) {
  const names = (nodes: ReturnType<typeof overview>['fibers']): string[] =>
    nodes.flatMap(({ name, children }) => [name, ...names(children)])
  return {
    page: names(overview(harness.running!).fibers),
    service: harness.service.providers.map(({ name }) => name),
    terminal: [...providerLines(harness)[0]!.matchAll(/^ +(\w+) \d+/gm)].map(([, name]) => name)
  }
}

test('providers keep their place when they, or those around them, are replaced', async () => {
  const app = await createApp(files)
  await app.next('ready')
  const all = { page: order, service: order, terminal: order }
  expect(shown(app)).toEqual(all)
  for (const file of ['a.ts', 'x.ts', 'b.ts', 'a.ts', 'c.ts']) {
    expect((await app.edit(file, bump)).outcome).toBe('reloaded')
    expect(shown(app), file).toEqual(all)
  }
})

test('a provider of which no version runs keeps its place and is shown as gone', async () => {
  const lock = (after = '') =>
    service('a', `if (globalThis.taken) throw new Error('taken')\nglobalThis.taken = true\n${after}`)
  const app = await createApp({ ...files, 'a.ts': lock() })
  await app.next('ready')
  try {
    expect((await app.edit('a.ts', bump)).outcome).toBe('rolled-back')
    expect(shown(app).page).toEqual(order)
    expect(shown(app).service).toEqual(order)
    expect(overview(app.harness.running!).fibers[0]!.children[0]).toMatchObject({ name: 'a', states: { disposed: 1 } })
  } finally {
    Object.assign(globalThis, { taken: false })
  }
  await app.edit('a.ts', source => bump(bump(source)))
  expect(shown(app)).toEqual({ page: order, service: order, terminal: order })
  expect(overview(app.harness.running!).fibers[0]!.children[0]).toMatchObject({ name: 'a', states: { active: 1 } })
})
