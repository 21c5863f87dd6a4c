import { describe, expect, test } from 'vitest'
import { createApp, seq } from '../fixtures/app.ts'
import { bump } from '../fixtures/field-fixture.ts'

/** A provider that enters a plain AsyncLocalStorage, waits for its runs by itself, and disables it. */
const files = {
  'harness.ts': `
    import Agents from './agents.ts'
    export default function harness(ctx) { ctx.plugin(Agents) }`,
  'agents.ts': `
    import { AsyncLocalStorage } from 'node:async_hooks'
    import { Service } from 'cordis'
    export const version = 1
    export default class Agents extends Service {
      storage = new AsyncLocalStorage()
      open = new Set()
      constructor(ctx) {
        super(ctx, 'agents')
        ctx.effect(() => async () => {
          await Promise.allSettled(this.open)
          this.storage.disable()
        })
      }
      run(value, operation) {
        const result = this.storage.run(value, operation)
        this.open.add(result)
        return result
      }
    }`
}

describe('the AsyncLocalStorage of a harness module', () => {
  test.each([
    ['a named import', `import { AsyncLocalStorage } from 'node:async_hooks'`],
    ['a default import', `import hooks from 'async_hooks'\nconst { AsyncLocalStorage } = hooks`],
    ['a namespace import', `import * as hooks from 'node:async_hooks'\nconst { AsyncLocalStorage } = hooks`],
    ['a dynamic import', `const { AsyncLocalStorage } = await import('node:async_hooks')`],
    ['require', `const { AsyncLocalStorage } = require('node:async_hooks')`]
  ])('is recorded through %s, by provider and generation, and behaves as the native one', async (_, load) => {
    const app = await createApp({
      'harness.ts': files['harness.ts'],
      'agents.ts': `
        ${load}
        import { executionAsyncId } from 'node:async_hooks'
        import { isDeepStrictEqual } from 'node:util'
        class Named extends AsyncLocalStorage { hello() { return this.run(1, () => this.getStore()) } }
        export default function agents(ctx) {
          const storage = new AsyncLocalStorage()
          const named = new Named()
          const bound = storage.run('bound', () => AsyncLocalStorage.bind(() => storage.getStore()))
          const snapshot = storage.run('snapshot', () => AsyncLocalStorage.snapshot())
          seq.push(
            storage instanceof AsyncLocalStorage, named instanceof Named, named instanceof AsyncLocalStorage, storage instanceof Named,
            named.hello(), bound(), snapshot(() => storage.getStore()),
            storage.run('a', () => storage.exit(() => storage.getStore())),
            storage.run('a', (x, y) => storage.getStore() + x + y, 'b', 'c'),
            AsyncLocalStorage.name, storage.constructor === AsyncLocalStorage, typeof executionAsyncId()
          )
          const native = process.getBuiltinModule('node:async_hooks').AsyncLocalStorage
          const options = { defaultValue: 7, name: 'seven' }
          const shown = Storage => {
            const seven = new Storage(options)
            return [seven.getStore(), seven.name, new Storage().name, seven.run(8, () => seven.getStore()), seven.getStore()]
          }
          const promise = Promise.resolve()
          seq.push(
            // As far as the line of Node knows these options.
            isDeepStrictEqual(shown(AsyncLocalStorage), shown(native)),
            storage.run(1, () => promise) === promise
          )
        }`
    })
    await app.next('ready')
    expect(seq).toEqual([
      true,
      true,
      true,
      false,
      1,
      'bound',
      'snapshot',
      undefined,
      'abc',
      'AsyncLocalStorage',
      true,
      'number',
      true,
      true
    ])
    const { ledger, host } = app.harness.running!
    const module = `${app.root}/agents.ts`
    const entries = ledger.entriesOf({ module, generation: host.version(host.exports(module)) })
    expect(entries).toHaveLength(4)
    expect(entries[0]?.created).toMatchObject({ file: module })
  })

  test('is collected although a loop that never ends has entered every generation of it', async () => {
    const app = await createApp(files)
    await app.next('ready')
    let driving = true
    const drive = async () => {
      while (driving) {
        await app.service('agents')?.['run']({}, () => new Promise(resolve => setImmediate(resolve)))
        await new Promise(resolve => setImmediate(resolve))
      }
    }
    const driver = drive()
    for (let i = 0; i < 5; i++) {
      await app.edit('agents.ts', bump)
      expect(await app.next('audit')).toMatchObject({ outcome: 'collected', storages: { created: 1, collected: 1 } })
    }
    driving = false
    await driver
  })

  test('belongs to the provider that a library module creates it for', async () => {
    const app = await createApp({
      'harness.ts': files['harness.ts'],
      'library.ts': `
        import { AsyncLocalStorage } from 'node:async_hooks'
        export const create = () => new AsyncLocalStorage()`,
      'agents.ts': `
        import { create } from './library.ts'
        export const version = 1
        export default function agents() { create() }`
    })
    await app.next('ready')
    await app.edit('agents.ts', bump)
    expect(await app.next('audit')).toMatchObject({ generation: 1, outcome: 'collected', storages: { created: 1 } })
  })

  test('is named with its pending run while a drain waits for it', async () => {
    const app = await createApp(files, { warnAfter: 10 })
    await app.next('ready')
    let leave = () => {}
    const run = app.service('agents')['run']({}, () => new Promise<void>(resolve => (leave = resolve)))
    const reloading = app.edit('agents.ts', bump)
    await app.next('slow')
    expect(app.lines.at(-1)).toMatch(
      /draining agents 1: 1 open boundary {2}\(.*\)\n {2}AsyncLocalStorage\.run\(\) {2}[\d.]+ s/
    )
    leave()
    await run
    expect((await reloading).outcome).toBe('reloaded')
  })
})
