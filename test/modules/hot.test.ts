import { describe, expect, test } from 'vitest'
import { createApp, seq } from '../fixtures/app.ts'

const files = {
  'harness.ts': `
    import Agents from './agents.ts'
    export default function harness(ctx) { ctx.plugin(Agents) }`,
  'agents.ts': `
    import { value } from './value.ts'
    export default function agents(ctx) { seq.push('agents ' + value) }`,
  'value.ts': `export let value = 'one'`
}

/** A module that keeps a list in its data and accepts itself. */
const accepting = `
    export let value = 'one'
    const { hot } = import.meta
    seq.push('evaluated ' + value + ' after ' + (hot.data.count ?? 0))
    hot.data.count = (hot.data.count ?? 0) + 1
    hot.accept(next => seq.push('accepted ' + next.value))
    hot.dispose(data => seq.push('disposed ' + value + ' with ' + data.count))`

describe('import.meta.hot', () => {
  test('accept: a module that accepts itself is replaced alone, and its importer sees the new exports', async () => {
    const app = await createApp({
      ...files,
      'value.ts': accepting,
      'agents.ts': `${files['agents.ts']}\nexport const read = () => value`
    })
    await app.next('ready')
    const report = await app.edit('value.ts', source => source.replace('one', 'two'))
    expect(report).toMatchObject({ outcome: 'reloaded', providers: [], failures: [] })
    expect(seq).toEqual([
      'evaluated one after 0',
      'agents one',
      'evaluated two after 1',
      'disposed one with 2',
      'accepted two'
    ])
    const { running } = app.harness
    expect((running!.host.exports(`${app.root}/agents.ts`)!['read'] as () => string)()).toBe('two')
  })

  test('accept: an importer takes the new version of a dependency, and is not evaluated again', async () => {
    const app = await createApp({
      ...files,
      'agents.ts': `${files['agents.ts']}
        import.meta.hot.accept('./value.ts', next => seq.push('took ' + next.value))`
    })
    await app.next('ready')
    await app.edit('value.ts', source => source.replace('one', 'two'))
    await app.edit('value.ts', source => source.replace('two', 'three'))
    expect(seq).toEqual(['agents one', 'took two', 'took three'])
  })

  test('accept: several dependencies come in their order, those that did not change as undefined', async () => {
    const app = await createApp({
      ...files,
      'other.ts': `export const other = 1`,
      'agents.ts': `import './other.ts'\n${files['agents.ts']}
        import.meta.hot.accept(['./other.ts', './value.ts'], ([a, b]) => seq.push([a?.other, b?.value].join('|')))`
    })
    await app.next('ready')
    await app.edit('value.ts', source => source.replace('one', 'two'))
    expect(seq.at(-1)).toBe('|two')
  })

  test('dispose: runs only when the new version has been staged', async () => {
    const app = await createApp({ ...files, 'value.ts': accepting })
    await app.next('ready')
    expect((await app.edit('value.ts', source => source.replace('let value =', 'let value = ='))).outcome).toBe('kept')
    expect(seq.filter(line => line.startsWith('disposed'))).toEqual([])
    app.write('value.ts', accepting.replace('one', 'two'))
    await app.next('reload')
    expect(seq.filter(line => line.startsWith('disposed'))).toEqual(['disposed one with 2'])
  })

  test('dispose: belongs to a provider module too, and comes before its successor is applied', async () => {
    const hot = `\nimport.meta.hot.dispose(() => seq.push('disposed'))`
    const app = await createApp({ ...files, 'agents.ts': files['agents.ts'] + hot })
    await app.next('ready')
    await app.edit('agents.ts', source => source.replace(`'agents '`, `'new agents '`))
    expect(seq).toEqual(['agents one', 'disposed', 'new agents one'])
  })

  test('dispose: is awaited, importers before what they import, before the successor is applied', async () => {
    const slow = (name: string) => `
      import.meta.hot.dispose(async () => {
        seq.push('${name} closes')
        await new Promise(resolve => setImmediate(resolve))
        seq.push('${name} closed')
      })`
    const app = await createApp({
      ...files,
      'agents.ts': files['agents.ts'] + slow('agents'),
      'value.ts': files['value.ts'] + slow('value')
    })
    await app.next('ready')
    expect((await app.edit('value.ts', source => source.replace('one', 'two'))).failures).toEqual([])
    expect(seq).toEqual(['agents one', 'agents closes', 'agents closed', 'value closes', 'value closed', 'agents two'])
  })

  test('dispose: one that rejects and one that never ends are failures of the report, and hold up nothing', async () => {
    const app = await createApp(
      {
        ...files,
        'agents.ts': `${files['agents.ts']}
          import.meta.hot.dispose(() => new Promise(() => {}))
          import.meta.hot.dispose(async () => { throw new Error('cannot close') })
          import.meta.hot.dispose(() => seq.push('closed'))`
      },
      { deadline: 200 }
    )
    await app.next('ready')
    const report = await app.edit('agents.ts', source => source.replace(`'agents '`, `'new agents '`))
    expect(report).toMatchObject({
      outcome: 'reloaded',
      failures: ['module "agents.ts": hot.dispose has not ended', 'cannot close']
    })
    expect(seq).toEqual(['agents one', 'closed', 'new agents one'])
  })

  test('dispose: a version that was staged and then dropped is disposed too', async () => {
    const pool = `
      globalThis.pools = (globalThis.pools ?? 0) + 1
      import.meta.hot.dispose(() => void globalThis.pools--)`
    const app = await createApp({ ...files, 'value.ts': files['value.ts'] + pool, 'more.ts': pool })
    await app.next('ready')
    const pools = () => (globalThis as { pools?: number }).pools
    const report = await app.edit('agents.ts', source => `import './more.ts'\n${source}\nthrow new Error('broken')`)
    expect(report.outcome).toBe('kept')
    expect(pools()).toBe(1)
    await app.close()
    expect(pools()).toBe(0)
  })

  test('accept: an async callback is awaited, and its rejection is a failure of the report', async () => {
    const app = await createApp({
      ...files,
      'agents.ts': `${files['agents.ts']}
        import.meta.hot.accept('./value.ts', async next => {
          await new Promise(resolve => setImmediate(resolve))
          seq.push('took ' + next.value)
          throw new Error('cannot take it')
        })`
    })
    await app.next('ready')
    const report = await app.edit('value.ts', source => source.replace('one', 'two'))
    expect(report.failures).toEqual(['cannot take it'])
    expect(seq).toEqual(['agents one', 'took two'])
  })

  test('on: a listener that throws, and one that rejects, are told and stop nothing', async () => {
    const app = await createApp({
      ...files,
      'value.ts': `${files['value.ts']}
        import.meta.hot.on('ping', () => { throw new Error('thrown') })
        import.meta.hot.on('ping', async () => { throw new Error('rejected') })
        import.meta.hot.on('ping', () => seq.push('ping'))`
    })
    await app.next('ready')
    app.server.environments['harness']!.hot.send('ping', {})
    expect(seq).toEqual(['agents one', 'ping'])
    const told = [(await app.next('error')).message, (await app.next('error')).message]
    expect(told.toSorted()).toEqual(['rejected', 'thrown'])
  })

  test('dispose: runs forevery module when the harness ends, so that the next one can register the same again', async () => {
    const names = new Set<string>()
    Object.assign(globalThis, {
      define(name: string) {
        if (names.has(name)) throw new Error(`"${name}" is already defined`)
        names.add(name)
        return async () => {
          await new Promise(resolve => setImmediate(resolve))
          names.delete(name)
        }
      }
    })
    const app = await createApp({
      ...files,
      'value.ts': `${files['value.ts']}\nimport.meta.hot.dispose(globalThis.define('turns'))`
    })
    await app.next('ready')
    await app.server.restart()
    await app.follow()
    expect(app.harness.state).toBe('stopped')
    expect([...names]).toEqual(['turns'])
    await app.close()
    expect([...names]).toEqual([])
    const another = await createApp({
      ...files,
      'value.ts': `${files['value.ts']}\nimport.meta.hot.dispose(globalThis.define('turns'))`,
      'agents.ts': `import './value.ts'\nthrow new Error('broken')`
    })
    await another.next('failed')
    expect([...names]).toEqual([])
    another.write('agents.ts', files['agents.ts'])
    await another.next('ready')
    expect([...names]).toEqual(['turns'])
  })

  test('prune: runs when nothing imports the module any more', async () => {
    const hot = `\nimport.meta.hot.prune(() => seq.push('pruned'))`
    const app = await createApp({ ...files, 'value.ts': files['value.ts'] + hot })
    await app.next('ready')
    await app.edit('value.ts', source => source.replace('one', 'two'))
    expect(seq).not.toContain('pruned')
    await app.edit('agents.ts', source => source.replace(`import { value } from './value.ts'`, `const value = 'own'`))
    expect(seq.filter(line => line === 'pruned')).toEqual(['pruned'])
  })

  test('prune: comes after the dispose of the same module, which is awaited, and both get its data', async () => {
    const app = await createApp({
      ...files,
      'value.ts': `${files['value.ts']}
        const { hot } = import.meta
        hot.prune(async data => { throw new Error('pruned after ' + data.disposed) })
        hot.dispose(async data => {
          await new Promise(resolve => setImmediate(resolve))
          data.disposed = 'dispose'
        })`
    })
    await app.next('ready')
    const report = await app.edit('agents.ts', source =>
      source.replace(`import { value } from './value.ts'`, `const value = 'own'`)
    )
    expect(report).toMatchObject({ outcome: 'reloaded', failures: ['pruned after dispose'] })
  })

  test('invalidate: hands the update on to the importers', async () => {
    const app = await createApp({
      ...files,
      'value.ts': `${files['value.ts']}
        import.meta.hot.accept(() => import.meta.hot.invalidate('cannot'))
        import.meta.hot.on('vite:invalidate', ({ message }) => seq.push('invalidated: ' + message))`
    })
    await app.next('ready')
    await app.edit('value.ts', source => source.replace('one', 'two'))
    const report = await app.next('reload')
    expect(report).toMatchObject({ outcome: 'reloaded', cause: expect.arrayContaining([`${app.root}/agents.ts`]) })
    expect(seq).toEqual(['agents one', 'invalidated: cannot', 'agents two'])
  })

  test('on, off and send: custom events go between the dev server and the harness', async () => {
    const app = await createApp({
      ...files,
      'value.ts': `${files['value.ts']}
        const { hot } = import.meta
        hot.on('ping', data => {
          seq.push('ping ' + data.n)
          hot.send('pong', { n: data.n + 1 })
        })
        const once = () => { seq.push('once'); hot.off('ping', once) }
        hot.on('ping', once)`
    })
    await app.next('ready')
    const { hot } = app.server.environments['harness']!
    hot.on('pong', ({ n }: { n: number }) => seq.push(`pong ${n}`))
    hot.send('ping', { n: 1 })
    hot.send('ping', { n: 3 })
    expect(seq).toEqual(['agents one', 'ping 1', 'pong 2', 'once', 'ping 3', 'pong 4'])
    // A new version listens again, the old one no more.
    await app.edit('value.ts', source => source.replace('one', 'two'))
    seq.length = 0
    hot.send('ping', { n: 5 })
    expect(seq).toEqual(['ping 5', 'pong 6', 'once'])
  })

  test('a callback that throws is reported and stops nothing', async () => {
    const app = await createApp({
      ...files,
      'value.ts': `${files['value.ts']}
        import.meta.hot.dispose(() => { throw new Error('in dispose') })
        import.meta.hot.accept(() => { throw new Error('in accept') })`
    })
    await app.next('ready')
    const report = await app.edit('value.ts', source => source.replace('one', 'two'))
    expect(report).toMatchObject({ outcome: 'reloaded', failures: ['in dispose', 'in accept'] })
  })

  test('a version that is rolled back leaves the callbacks of the old one', async () => {
    const app = await createApp({
      ...files,
      'agents.ts': `${files['agents.ts']}\nimport.meta.hot.accept('./value.ts', next => seq.push('took ' + next.value))`
    })
    await app.next('ready')
    const breaks = (source: string) => source.replace('{ seq.push(', `{ throw new Error('no'); seq.push(`)
    expect((await app.edit('agents.ts', breaks)).outcome).toBe('rolled-back')
    app.write(
      'agents.ts',
      `${files['agents.ts']}\nimport.meta.hot.accept('./value.ts', next => seq.push('took ' + next.value))`
    )
    app.write('value.ts', `export let value = 'two'`)
    while (!seq.includes('took two')) await app.next('reload')
  })
})
