/** Importers that are left as they are, and hold the namespace of an earlier version. */
import { expect, test } from 'vitest'
import { createApp } from '../fixtures/app.ts'
import { composing, service } from '../fixtures/field-fixture.ts'

test('a namespace that its importer has frozen stays what it was, and the reload and its rollback go through', async () => {
  const app = await createApp({
    'harness.ts': composing('./reader.ts', './agents.ts'),
    'reader.ts': service(
      'reader',
      `ctx.provide('frozen', frozen); ctx.provide('sealed', () => sealed.n)`,
      `import * as frozen from './agents.ts'\nimport * as sealed from './sealed.ts'\nObject.freeze(frozen)\nObject.preventExtensions(sealed)
       import.meta.hot.accept('./agents.ts')\nimport.meta.hot.accept('./sealed.ts')`
    ),
    'agents.ts': `export const n = 1\n${service('agents')}`,
    'sealed.ts': `export const n = 1`
  })
  await app.next('ready')
  expect((await app.edit('agents.ts', source => source.replace('n = 1', 'n = 2'))).outcome).toBe('reloaded')
  expect(app.harness.service.providers.find(({ name }) => name === 'agents')).toMatchObject({ generation: 2 })
  const failing = (source: string) =>
    source
      .replace('n = 2', 'n = 3')
      .replace('super(', `throw new Error('no')\nsuper(`)
      .concat('\nexport const more = 1')
  expect(await app.edit('agents.ts', failing)).toMatchObject({ outcome: 'rolled-back', failures: [] })
  expect(app.service('agents')).toBeDefined()
  expect(app.service<{ n: number }>('frozen').n).toBe(1)
  app.write('agents.ts', service('agents'))
  expect((await app.next('reload')).outcome).toBe('reloaded')
  expect((await app.edit('sealed.ts', `export const n = 2\nexport const more = 1`)).outcome).toBe('reloaded')
  expect(app.service<() => number>('sealed')()).toBe(2)
})
