import { join } from 'node:path'
import { expect, test } from 'vitest'
import { createApp } from './app.ts'

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
    /deep\.ts.* ← helper\.ts ← agents\.ts {2}\(the old version goes on\)/
  )
})
