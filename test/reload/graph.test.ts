import { expect, describe, test } from 'vitest'
import { createApp, seq } from '../fixtures/app.ts'
import { bump, composing, service } from '../fixtures/field-fixture.ts'

const sibling = { 'sibling.ts': `seq.push('sibling evaluated')\n${service('sibling')}` }
const since = (mark: number) => seq.slice(mark)

describe('modules of a cycle', () => {
  test('are evaluated and applied once each when one of them is saved', async () => {
    const app = await createApp({
      ...sibling,
      'harness.ts': composing('./agents.ts', './sibling.ts'),
      'agents.ts': `import { b } from './b.ts'\nseq.push('agents evaluated')\nexport const a = () => 'a 1'\n${service('agents', 'seq.push(b())')}`,
      'b.ts': `import { a } from './agents.ts'\nseq.push('b evaluated')\nexport const b = () => 'b 1 of ' + a()`
    })
    await app.next('ready')
    const mark = seq.length
    const report = await app.edit('b.ts', source => source.replace('b 1', 'b 2'))
    expect(report).toMatchObject({ outcome: 'reloaded', providers: [{ name: 'agents' }] })
    expect(since(mark)).toEqual(['b evaluated', 'agents evaluated', 'agents 1 down', 'agents 1 up', 'b 2 of a 1'])
    const next = (source: string) => bump(source).replace('a 1', 'a 2')
    expect((await app.edit('agents.ts', next)).outcome).toBe('reloaded')
    expect(since(mark).slice(5)).toEqual(['agents evaluated', 'agents 1 down', 'agents 2 up', 'b 2 of a 2'])
  })

  test('that are two providers are replaced together in one reload, one apply each', async () => {
    const half = (name: string, other: string) =>
      service(
        name,
        `seq.push(${other}Name())`,
        `import { ${other}Name } from './${other}.ts'\nexport const ${name}Name = () => '${name}'`
      )
    const app = await createApp({
      ...sibling,
      'harness.ts': composing('./agents.ts', './tools.ts', './sibling.ts'),
      'agents.ts': half('agents', 'tools'),
      'tools.ts': half('tools', 'agents')
    })
    await app.next('ready')
    const mark = seq.length
    const report = await app.edit('tools.ts', bump)
    expect(report.providers.map(({ name }) => name).toSorted()).toEqual(['agents', 'tools'])
    expect(
      since(mark)
        .filter(line => line.endsWith('up'))
        .toSorted()
    ).toEqual(['agents 1 up', 'tools 2 up'])
    expect((await app.edit('agents.ts', bump)).outcome).toBe('reloaded')
    expect(
      since(mark)
        .filter(line => line.endsWith('up'))
        .slice(2)
        .toSorted()
    ).toEqual(['agents 2 up', 'tools 2 up'])
    expect(seq.filter(line => line.startsWith('sibling'))).toEqual(['sibling evaluated', 'sibling 1 up'])
  })
})

describe('an index barrel', () => {
  const files = {
    ...sibling,
    'harness.ts': `import { Agents, Sibling } from './index.ts'
      export default function harness(ctx: any) { ctx.plugin(Agents); ctx.plugin(Sibling) }`,
    'index.ts': `seq.push('index evaluated')
      export { default as Agents } from './agents.ts'
      export { default as Sibling } from './sibling.ts'
      export * from './shared.ts'`,
    'agents.ts': service('agents'),
    'shared.ts': `export const shared = 'shared 1'`
  }

  // A barrel that exports the plugin counts as a provider of it (`isProvider` in plan.ts), and the plugin is applied twice.
  test('between a provider and the entry is not evaluated again when the provider is saved', async () => {
    const app = await createApp(files)
    await app.next('ready')
    const mark = seq.length
    const report = await app.edit('agents.ts', bump)
    expect(report).toMatchObject({ outcome: 'reloaded', providers: [{ name: 'agents' }] })
    expect(since(mark)).toEqual(['agents 1 down', 'agents 2 up'])
  })

  // As above.
  test('that its own child imports (index and child in a cycle) makes one reload with one apply', async () => {
    const app = await createApp({
      ...files,
      'agents.ts': service('agents', 'seq.push(shared)', `import { shared } from './index.ts'`)
    })
    await app.next('ready')
    const mark = seq.length
    const report = await app.edit('agents.ts', bump)
    expect(report).toMatchObject({ outcome: 'reloaded', providers: [{ name: 'agents' }] })
    expect(since(mark).filter(line => line.startsWith('agents'))).toEqual(['agents 1 down', 'agents 2 up'])
    expect(since(mark).filter(line => line.startsWith('sibling'))).toEqual([])
    expect(seq.at(-1)).toBe('shared 1')
  })
})

test('providers that a barrel exports by name with `export *` are replaced one by one', async () => {
  const app = await createApp({
    'harness.ts': `import { agents, tools } from './index.ts'
      export default (ctx: any) => { ctx.plugin(agents); ctx.plugin(tools) }`,
    'index.ts': `export * from './agents.ts'\nexport * from './tools.ts'`,
    'agents.ts': service('agents').replace('export default', 'export'),
    'tools.ts': service('tools').replace('export default', 'export')
  })
  await app.next('ready')
  for (const name of ['agents', 'tools', 'agents']) {
    const report = await app.edit(`${name}.ts`, bump)
    expect(report).toMatchObject({ outcome: 'reloaded', providers: [{ name }] })
    expect(report.providers).toHaveLength(1)
  }
  expect(seq.slice(2)).toEqual([
    'agents 1 down',
    'agents 2 up',
    'tools 1 down',
    'tools 2 up',
    'agents 2 down',
    'agents 3 up'
  ])
})

test('a plugin that another module imports and exports as its default is replaced from the module that defines it', async () => {
  const app = await createApp({
    ...sibling,
    'harness.ts': composing('./agents.ts', './sibling.ts'),
    'agents.ts': `import { agents } from './implementation.ts'\nexport default agents`,
    'implementation.ts': service('agents').replace('export default', 'export')
  })
  await app.next('ready')
  for (const version of [2, 3]) {
    expect((await app.edit('implementation.ts', bump)).outcome).toBe('reloaded')
    expect(app.service('agents')['version']).toBe(version)
  }
  // The module between has to hand the newest one to whoever evaluates again.
  expect((await app.edit('harness.ts', source => `${source}\nexport const more = 1`)).outcome).toBe('restarted')
  expect(app.service('agents')['version']).toBe(3)
})

test('a module that is itself a plugin (`export function apply`) is replaced with its config', async () => {
  const app = await createApp({
    'harness.ts': `import * as agents from './agents.ts'\nexport default (ctx: any) => void ctx.plugin(agents, { size: 1 })`,
    'agents.ts': `export const name = 'agents'
      export const version = 1
      export function apply(ctx: any, config: any) { seq.push(version + JSON.stringify(config)) }`
  })
  await app.next('ready')
  for (const _ of [2, 3]) expect((await app.edit('agents.ts', bump)).outcome).toBe('reloaded')
  expect(seq).toEqual(['1{"size":1}', '2{"size":1}', '3{"size":1}'])
})

test('instances under isolated contexts are replaced each in its own', async () => {
  const app = await createApp({
    'harness.ts': `import Agents from './agents.ts'
      export default (ctx: any) => {
        for (const name of ['x', 'y']) {
          const own = ctx.isolate('agents')
          own.plugin(Agents)
          own.inject(['agents'], ({ agents }: any) => void seq.push(name + ' on ' + agents.version))
        }
        ctx.inject(['agents'], () => void seq.push('not isolated'))
      }`,
    'agents.ts': service('agents')
  })
  await app.next('ready')
  const mark = seq.length
  expect(await app.edit('agents.ts', bump)).toMatchObject({ outcome: 'reloaded', providers: [{ instances: 2 }] })
  expect(
    since(mark)
      .filter(line => line.includes(' on '))
      .toSorted()
  ).toEqual(['x on 2', 'y on 2'])
  expect(seq).not.toContain('not isolated')
})

test('a type-only import is no dependency: a saved types module touches nobody', async () => {
  const app = await createApp({
    ...sibling,
    'harness.ts': composing('./agents.ts', './tools.ts', './sibling.ts'),
    'types.ts': `export interface Job { id: string }\nexport const used = 1`,
    'tools.ts': service(
      'tools',
      '',
      `import type { Job } from './types.ts'\nimport { type Job as Again } from './types.ts'\nimport type Agents from './agents.ts'\nexport type { Job, Again, Agents }`
    ),
    'agents.ts': service('agents')
  })
  await app.next('ready')
  const mark = seq.length
  app.write('types.ts', `export interface Job { id: string; more: number }\nexport const used = 2`)
  const report = await app.edit('agents.ts', bump)
  expect(report).toMatchObject({ id: 1, providers: [{ name: 'agents' }] })
  expect(since(mark)).toEqual(['agents 1 down', 'agents 2 up'])
})

describe('a plugin tree', () => {
  const branch = (name: string, children: string[]) => `
    ${children.map(child => `import ${child} from './${child}.ts'`).join('\n')}
    seq.push('${name} evaluated')
    const version = 1
    export default function ${name}(ctx: any) {
      seq.push('${name} ' + version + ' up')
      ctx.effect(() => () => void seq.push('${name} ' + version + ' down'))
      ${children.map(child => `ctx.plugin(${child})`).join('\n')}
    }`
  const files = {
    ...sibling,
    'harness.ts': composing('./top.ts', './sibling.ts'),
    'top.ts': branch('top', ['middle']),
    'middle.ts': branch('middle', ['left', 'right']),
    'left.ts': branch('left', []),
    'right.ts': branch('right', [])
  }
  const ups = (mark: number) => since(mark).filter(line => line.endsWith('up'))

  test('has only the saved leaf replaced, under the same parent', async () => {
    const app = await createApp(files)
    await app.next('ready')
    const mark = seq.length
    expect(await app.edit('left.ts', bump)).toMatchObject({ outcome: 'reloaded', providers: [{ name: 'left' }] })
    expect(since(mark)).toEqual(['left evaluated', 'left 1 down', 'left 2 up'])
    await app.edit('top.ts', bump)
    expect(ups(mark)).toEqual(['left 2 up', 'top 2 up', 'middle 1 up', 'left 2 up', 'right 1 up'])
  })

  test('has the saved branch replaced, which applies its children once and evaluates none of them', async () => {
    const app = await createApp(files)
    await app.next('ready')
    const mark = seq.length
    expect((await app.edit('middle.ts', bump)).outcome).toBe('reloaded')
    expect(since(mark).filter(line => line.endsWith('evaluated'))).toEqual(['middle evaluated'])
    expect(ups(mark)).toEqual(['middle 2 up', 'left 1 up', 'right 1 up'])
  })

  test('has only the top-most replaced by hand when parent and child are saved at once', async () => {
    const app = await createApp(files)
    await app.next('ready')
    const mark = seq.length
    app.write('left.ts', bump(files['left.ts']))
    app.write('top.ts', bump(files['top.ts']))
    while (!(since(mark).includes('top 2 up') && since(mark).includes('left 2 up'))) await app.next('reload')
    await app.harness.idle()
    expect(ups(mark)).toEqual(['top 2 up', 'middle 1 up', 'left 2 up', 'right 1 up'])
    const live = [...app.harness.running!.fibers.all()].map(({ name }) => name)
    expect(live.toSorted()).toEqual(['harness', 'left', 'middle', 'right', 'sibling', 'top'])
  })
})
