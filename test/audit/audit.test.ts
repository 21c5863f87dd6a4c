import { describe, expect, onTestFinished, test } from 'vitest'
import { createApp } from '../fixtures/app.ts'
import { alive, forced } from '../gc.ts'
import { bump } from '../fixtures/field-fixture.ts'

const files = {
  'harness.ts': `
    import Agents from './agents.ts'
    export default function harness(ctx: any) { ctx.plugin(Agents) }`,
  'agents.ts': `
    import { Service } from 'cordis'
    import { BoundaryScope } from 'harness-hmr/scope'
    export const version = 1
    export default class Agents extends Service {
      scope = new BoundaryScope<object>({ name: 'agents' })
      constructor(ctx: any) {
        super(ctx, 'agents')
        ctx.effect(() => () => this.scope.dispose())
      }
    }`
}

describe('the audit', () => {
  test('reports the storage and the instance of a retired generation as collected', async () => {
    const app = await createApp(files)
    await app.next('ready')
    const { id } = await app.edit('agents.ts', bump)
    expect(await app.next('audit')).toEqual({
      type: 'audit',
      reload: id,
      module: `${app.root}/agents.ts`,
      name: 'agents',
      generation: 1,
      outcome: 'collected',
      instances: { created: 1, collected: 1 },
      storages: { created: 1, collected: 1 },
      stores: { created: 0, collected: 0 },
      forgotten: [],
      shared: [],
      retainers: []
    })
    expect(app.lines.at(-1)).toContain('collected agents 1  1 storage, 1 instance')
  })

  test('reports what is kept as retained, and as collected once it is let go', async () => {
    const app = await createApp(files)
    await app.next('ready')
    const kept = [app.service('agents')['scope']]
    await app.edit('agents.ts', bump)
    expect(await app.next('audit')).toMatchObject({
      outcome: 'retained',
      generation: 1,
      storages: { created: 1, collected: 0 }
    })
    kept.pop()
    await app.edit('agents.ts', bump)
    const [first, second] = [await app.next('audit'), await app.next('audit')]
    expect([first, second].map(({ generation, outcome }) => `${generation} ${outcome}`).toSorted()).toEqual([
      '1 collected',
      '2 collected'
    ])
  })

  test('disables the storage that a provider forgot, so that it is collected too', async () => {
    const plain = files['agents.ts'].replace(
      'constructor(ctx: any) {',
      `forgotten = new AsyncLocalStorage<object>()
      constructor(ctx: any) {`
    )
    const app = await createApp({
      ...files,
      'agents.ts': `import { AsyncLocalStorage } from 'node:async_hooks'\n${plain}`
        .replace('super(ctx', 'super(ctx')
        .replace('ctx.effect(', 'this.forgotten.run({}, () => {})\nctx.effect(')
    })
    await app.next('ready')
    await app.edit('agents.ts', bump)
    expect(await app.next('audit')).toMatchObject({ outcome: 'collected', storages: { created: 2, collected: 2 } })
  })

  test('names the place of the storage that it disabled for a provider, and only where that was entered', async () => {
    const app = await createApp({
      ...files,
      'agents.ts': `import { AsyncLocalStorage } from 'node:async_hooks'
const entered = new AsyncLocalStorage()
const never = new AsyncLocalStorage()
const ended = new AsyncLocalStorage()
entered.run(never, () => {})
ended.run(never, () => ended.disable())
${files['agents.ts']}`
    })
    await app.next('ready')
    await app.edit('agents.ts', bump)
    const { outcome, forgotten } = await app.next('audit')
    expect(outcome).toBe('collected')
    expect(forgotten).toMatchObject([{ file: `${app.root}/agents.ts`, line: 2 }])
    expect(app.lines.at(-1)).toContain('disabled for it: agents.ts:2')
  })

  test('switched off, looks at nothing until it is asked', async () => {
    const app = await createApp(files, { audit: false })
    await app.next('ready')
    await app.edit('agents.ts', bump)
    await app.edit('agents.ts', bump)
    const audits: number[] = []
    app.harness.listen({ audit: ({ generation }) => void audits.push(generation) })
    await app.harness.idle()
    expect(audits).toEqual([])
    await app.harness.audit()
    expect(audits).toEqual([1, 2])
  })

  test('with a heap above the limit, says so and waits for a quiet moment; asked for, it does not wait', async () => {
    const app = await createApp(files, { auditHeap: 0 })
    await app.next('ready')
    // Nothing is quiet here.
    let busy = true
    const spin = () => {
      const until = performance.now() + 20
      while (performance.now() < until);
      if (busy) setImmediate(spin)
    }
    onTestFinished(() => void (busy = false))
    const waits = new Promise<number>(resolve => app.harness.listen({ auditWaits: resolve }))
    spin()
    await app.edit('agents.ts', bump)
    expect(await waits).toBeGreaterThan(1)
    expect(app.lines.at(-1)).toContain('the audit waits for a quiet moment')
    void app.harness.audit()
    expect(await app.next('audit')).toMatchObject({ generation: 1, outcome: 'collected' })
    await app.edit('agents.ts', bump)
    busy = false
    expect(await app.next('audit')).toMatchObject({ generation: 2, outcome: 'collected' })
  })

  test('names the generation that a rollback retired', async () => {
    const app = await createApp(files)
    await app.next('ready')
    const report = await app.edit('agents.ts', source =>
      bump(source).replace('ctx.effect(', `throw new Error('no'); ctx.effect(`)
    )
    expect(report.outcome).toBe('rolled-back')
    const audits = [await app.next('audit'), await app.next('audit')]
    expect(audits.map(({ generation, outcome }) => `${generation} ${outcome}`).toSorted()).toEqual([
      '1 collected',
      '2 collected'
    ])
  })

  test('forces no more than one collection a second for a burst of reloads, and at once when it is asked', async () => {
    const app = await createApp(files)
    await app.next('ready')
    const count = forced()
    const start = performance.now()
    for (let reload = 1; reload <= 10; reload++) await app.edit('agents.ts', bump)
    for (let reload = 1; reload <= 10; reload++)
      expect(await app.next('audit')).toMatchObject({ outcome: 'collected', generation: reload })
    expect(count()).toBeGreaterThan(0)
    expect(count()).toBeLessThanOrEqual(1 + (performance.now() - start) / 1000)
    await app.edit('agents.ts', bump)
    const asked = performance.now()
    await app.harness.audit()
    expect(await app.next('audit')).toMatchObject({ outcome: 'collected', generation: 11 })
    expect(performance.now() - asked).toBeLessThan(900)
  })

  test('forces none for what an ordinary collection has taken', async () => {
    const app = await createApp(files)
    await app.next('ready')
    await app.edit('agents.ts', bump)
    await app.next('audit')
    const count = forced()
    await app.edit('agents.ts', bump)
    await alive([], -1, 3)
    expect(await app.next('audit')).toMatchObject({ outcome: 'collected', generation: 2 })
    expect(count()).toBe(3)
  })

  test('finds as many live storages and registries after 50 reloads as after 5, while long-lived drivers go on', async () => {
    const app = await createApp(files)
    await app.next('ready')
    const registries: WeakRef<object>[] = []
    let driving = true
    // A driver outside of what is reloaded: it enters every generation's scope from one async context that never ends.
    onTestFinished(() => void (driving = false))
    const step = async () => {
      const agents = app.service('agents')
      if (agents?.['scope']?.state === 'open')
        await agents['scope'].run({}, () => new Promise(resolve => setImmediate(resolve)))
      else await new Promise(resolve => setImmediate(resolve))
    }
    // Once V8 has optimised it, a suspended function may keep what it held when it was slow: the loop holds nothing.
    const drive = async () => {
      while (driving) await step()
    }
    const drivers = [drive(), drive()]
    const count = async () => {
      const storages = app.harness.running!.ledger.live().map(({ storage }) => storage)
      return { storages: await alive(storages, 1), registries: await alive(registries, 1) }
    }
    let after5: unknown
    for (let reload = 1; reload <= 50; reload++) {
      registries.push(new WeakRef(app.service('agents')))
      const report = await app.edit('agents.ts', bump)
      expect(`${report.outcome} ${report.reason?.message}`).toBe('reloaded undefined')
      if (reload === 5) after5 = await count()
    }
    registries.push(new WeakRef(app.service('agents')))
    const after50 = await count()
    driving = false
    await Promise.all(drivers)
    expect(after5).toEqual({ storages: 1, registries: 0 })
    expect(after50).toEqual({ storages: 1, registries: 1 })
  }, 60_000)
})
