import { join } from 'node:path'
import { expect, test } from 'vitest'
import { createApp } from '../fixtures/app.ts'

const files = {
  'harness.ts': `
    import Agents from './agents.ts'
    export default function harness(ctx: any) { ctx.plugin(Agents) }`,
  'agents.ts': `
interface Options {
  unused: string
}

export const fail = (options?: Options): Error => new Error(options?.unused ?? 'here')
export default function agents(ctx: any) { ctx.provide('fail', fail) }`
}

test('a stack trace names the line of the file that runs, for new closures and for old ones', async () => {
  const app = await createApp(files)
  await app.next('ready')
  const old = app.service<() => Error>('fail')
  expect(old().stack).toContain(`${join(app.root, 'agents.ts')}:6:`)
  await app.edit('agents.ts', source => `// one\n// two\n${source.replace('here', 'there')}`)
  const current = app.service<() => Error>('fail')
  expect(current().stack).toContain(`${join(app.root, 'agents.ts')}:8:`)
  expect(old().stack).toContain(`${join(app.root, 'agents.ts')}:6:`)
  expect(current().stack).not.toContain('?v=')
})

test('a type-only edit moves no code and is ignored', async () => {
  const app = await createApp(files)
  await app.next('ready')
  app.write('agents.ts', files['agents.ts'].replace('unused: string', 'unused: string; more?: number'))
  expect(await app.next('reload')).toMatchObject({ outcome: 'ignored', reason: { code: 'same' } })
})

test('a missing module that is imported is named', async () => {
  const app = await createApp(files)
  await app.next('ready')
  const report = await app.edit('agents.ts', source => `import './deep.ts'\n${source}`)
  expect(report.outcome).toBe('kept')
  expect(report.error?.message).toContain('deep.ts')
})

test('a missing module that a helper imports is named with the importers up to the provider', async () => {
  const app = await createApp({ ...files, 'helper.ts': `export const helper = 1` })
  await app.next('ready')
  await app.edit('agents.ts', source => `import './helper.ts'\n${source}`)
  const report = await app.edit('helper.ts', source => `import './deep.ts'\n${source}`)
  expect(report.error?.imports).toEqual(['./deep.ts', join(app.root, 'helper.ts'), join(app.root, 'agents.ts')])
  expect(app.lines.find(line => line.includes('kept'))).toMatch(
    /helper\.ts:1:1 .*deep\.ts[^←]* ← agents\.ts {2}\(the old version goes on\)/
  )
})

test('the column of an error that an imported function throws is that of its call in the source', async () => {
  const source = `import { fail, deep } from './helper.ts'
export default function agents(ctx: any) { ctx.provide('call', () => { const before = 1; return [before, fail(), deep.er.fail()] }) }`
  const app = await createApp({
    ...files,
    'agents.ts': source,
    'helper.ts': `export let fail = () => 1\nexport const set = (f: any) => void (fail = f)\nexport const deep = { er: { fail: () => { throw new Error('deeper') } } }`
  })
  await app.next('ready')
  const [line = ''] = source.split('\n').slice(1)
  const columnsOf = (call: () => unknown) => {
    try {
      call()
    } catch (error) {
      return /agents\.ts:(\d+:\d+)/.exec((error as Error).stack!)![1]
    }
    return undefined
  }
  expect(columnsOf(app.service<() => unknown>('call'))).toBe(`2:${line.indexOf('fail()]') + 1}`)
  const { set } = app.harness.running!.host.exports(join(app.root, 'helper.ts')) as { set: (f: unknown) => void }
  set(() => {
    throw new Error('here')
  })
  expect(columnsOf(app.service<() => unknown>('call'))).toBe(`2:${line.indexOf('fail()') + 1}`)
})

test.each([
  ['arrow function', `export default (ctx: any) => void ctx.effect(() => () => {})`],
  ['function', `export default function (ctx: any) { ctx.effect(() => () => {}) }`],
  ['class', `export default class { constructor(ctx: any) { ctx.effect(() => () => {}) } }`]
])(
  'a default export that is an anonymous %s has the name that Node gives it, and its file in reports',
  async (_, source) => {
    const app = await createApp({ ...files, 'agents.ts': source })
    await app.next('ready')
    const { default: plugin } = app.harness.running!.host.exports(join(app.root, 'agents.ts')) as {
      default: { name: string }
    }
    expect(plugin.name).toBe('default')
    const report = await app.edit('agents.ts', text => `${text}\nexport const more = 1`)
    expect(report).toMatchObject({ outcome: 'reloaded', providers: [{ name: 'agents' }] })
    const failed = await app.edit('agents.ts', text => text.replace('ctx.effect', 'ctx.missing.effect'))
    expect(failed).toMatchObject({ outcome: 'rolled-back', providers: [{ name: 'agents' }] })
    expect(JSON.stringify(failed)).not.toContain('__vite_ssr')
    expect(app.lines.join()).not.toContain('__vite_ssr')
  }
)
