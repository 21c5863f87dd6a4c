/** Cycles that load only when they are entered at the module at which the entry enters them. */
import { expect, test } from 'vitest'
import { type App, createApp, seq } from '../fixtures/app.ts'
import { bump, composing, service } from '../fixtures/field-fixture.ts'

const part = (name: string, body: string, head: string) =>
  service(name, body, head).replace('version = 1', `static id = '${name} 1'\nversion = 1`)
const applied = (mark: number) => seq.slice(mark).filter(line => line.endsWith(' up'))
const next = (source: string) => bump(source).replace(/(id = '\w+) \d/, '$1 2')

const catalog = {
  'harness.ts': `import { ids } from './catalog.ts'\n${composing('./agents.ts', './tools.ts', './sibling.ts')}\nexport { ids }`,
  'catalog.ts': `
    import Agents from './agents.ts'
    import Tools from './tools.ts'
    seq.push('catalog evaluated')
    export const ids = [Agents.id, Tools.id]`,
  'agents.ts': part('agents', `ctx.provide('ids', () => ids)`, `import { ids } from './catalog.ts'`),
  'tools.ts': part('tools', `ctx.provide('toolIds', () => ids)`, `import { ids } from './catalog.ts'`),
  'sibling.ts': service('sibling')
}
const ids = (app: App) => app.service<() => string[]>('ids')()

test.each(['agents', 'tools'])(
  'a catalog that reads its providers, which import it, is loaded from the entry on when %s is saved',
  async name => {
    const app = await createApp(catalog)
    await app.next('ready')
    const mark = seq.length
    const report = await app.edit(`${name}.ts`, next)
    expect(report).toMatchObject({ id: 1, outcome: 'reloaded' })
    expect(seq.slice(mark).filter(line => line === 'catalog evaluated')).toHaveLength(1)
    expect(applied(mark).toSorted()).toEqual([
      `agents ${name === 'agents' ? 2 : 1} up`,
      `tools ${name === 'tools' ? 2 : 1} up`
    ])
    expect(ids(app)).toContain(`${name} 2`)
  }
)

test('an order that a restart has changed is the one that counts from then on', async () => {
  // Only `tools.ts` may be entered first now.
  const app = await createApp({
    'harness.ts': composing('./agents.ts', './tools.ts'),
    'agents.ts': part('agents', '', `import Tools from './tools.ts'\nexport const ofTools = () => Tools.id`),
    'tools.ts': part('tools', '', `import Agents from './agents.ts'\nexport const ofAgents = () => Agents.id`)
  })
  await app.next('ready')
  app.write('harness.ts', composing('./tools.ts', './agents.ts'))
  expect((await app.next('reload')).outcome).toBe('restarted')
  const reads = (source: string) =>
    source.replace('export const ofAgents = ()', 'export const first = Agents.id, of = ()')
  expect((await app.edit('tools.ts', reads)).outcome).toBe('reloaded')
  expect((await app.edit('agents.ts', next)).outcome).toBe('reloaded')
  expect(app.service('agents')['version']).toBe(2)
})

test('an index that reads its children, which import it, is entered before them', async () => {
  const app = await createApp({
    'harness.ts': `import { Agents, Tools } from './index.ts'
      export default (ctx: any) => { ctx.plugin(Agents); ctx.plugin(Tools) }`,
    'index.ts': `import Agents from './agents.ts'\nimport Tools from './tools.ts'
      export const ids = [Agents.id, Tools.id]\nexport { Agents, Tools }`,
    'agents.ts': part('agents', `ctx.provide('ids', () => ids)`, `import { ids } from './index.ts'`),
    'tools.ts': part('tools', '', `import { ids } from './index.ts'\nexport const all = () => ids`)
  })
  await app.next('ready')
  for (const name of ['tools', 'agents']) {
    const mark = seq.length
    expect(await app.edit(`${name}.ts`, next)).toMatchObject({ outcome: 'reloaded' })
    expect(applied(mark)).toContain(`${name} 2 up`)
    expect(applied(mark).length).toBe(new Set(applied(mark)).size)
    expect(ids(app)).toContain(`${name} 2`)
  }
})
