/** What counts as changed, and that the newest of it runs. */
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { createApp, seq } from './app.ts'
import { composing, service } from './field-fixture.ts'

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
