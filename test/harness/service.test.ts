import { join } from 'node:path'
import { describe, expect, test } from 'vitest'
import type { HarnessHmr } from '../../plugin/index.ts'
import { createApp, seq } from '../fixtures/app.ts'
import { promptly, turn } from '../promptly.ts'

const files = {
  'harness.ts': `
    import Agents from './agents.ts'
    export default function harness(ctx) {
      ctx.on('harness-hmr/report', report => seq.push(report.outcome))
      ctx.plugin(Agents)
    }`,
  'agents.ts': `
    import { Service } from 'cordis'
    import { BoundaryScope } from 'harness-hmr/scope'
    export default class Agents extends Service {
      scope = new BoundaryScope({ name: 'agents', label: value => value.id })
      version = 'v1'
      constructor(ctx) {
        super(ctx, 'agents')
        seq.push(this.version)
        ctx.effect(() => () => this.scope.dispose())
      }
    }`,
  'unused.ts': ''
}

const v2 = files['agents.ts'].replace(`'v1'`, `'v2'`)

describe('ctx.harnessHmr', () => {
  test('answers a request from outside at once, and the reload comes', async () => {
    const app = await createApp(files)
    await app.next('ready')
    app.write('agents.ts', v2)
    expect(app.service<HarnessHmr>('harnessHmr').request('agents.ts')).toEqual({
      file: join(app.root, 'agents.ts'),
      when: 'now',
      providers: ['agents 1'],
      message: 'agents 1 will be replaced when what is open has ended; if the new version fails, the old one goes on'
    })
    expect((await app.next('reload')).outcome).toBe('reloaded')
    expect(seq).toEqual(['v1', 'v2', 'reloaded'])
  })

  test('answers a request from inside a boundary that has to end for it, which then ends by itself', async () => {
    const app = await createApp(files)
    await app.next('ready')
    const hmr = app.service<HarnessHmr>('harnessHmr')
    const operation = async () => {
      app.write('agents.ts', v2)
      const { when } = hmr.request('agents.ts')
      await turn()
      seq.push(`end of the operation, told "${when}"`)
    }
    await promptly(app.service('agents')['scope'].run({ id: 'ada' }, operation), 'the operation')
    await app.next('reload')
    expect(seq).toEqual(['v1', 'end of the operation, told "deferred"', 'v2', 'reloaded'])
  })

  test('lets an operation that polls for the new version run into the deadline, and names it', async () => {
    const app = await createApp(files, { warnAfter: 10, deadline: 200 })
    await app.next('ready')
    const hmr = app.service<HarnessHmr>('harnessHmr')
    const operation = async () => {
      app.write('agents.ts', v2)
      hmr.request('agents.ts')
      while (app.service('agents')?.['version'] !== 'v2') await turn()
      seq.push('the operation sees v2')
    }
    const polling = app.service('agents')['scope'].run({ id: 'ada' }, operation)
    const report = await app.next('reload')
    expect(report.providers[0]?.boundaries.abandoned).toBe(1)
    expect(app.lines.find(line => line.includes('draining'))).toMatch(
      /draining agents 1: 1 open boundary {2}\([\d.]+ s left\)\n {2}ada /
    )
    await promptly(polling, 'the operation')
    expect(seq).toContain('the operation sees v2')
  })

  test('says why nothing will happen', async () => {
    const app = await createApp(files)
    await app.next('ready')
    const hmr = app.service<HarnessHmr>('harnessHmr')
    expect(hmr.request('unused.ts')).toMatchObject({
      when: 'never',
      message: 'nothing is reloaded: no running module uses this file'
    })
  })

  test('shows what is dirty, what was abandoned, and the last reports', async () => {
    const app = await createApp(files, { warnAfter: 10, deadline: 50 })
    await app.next('ready')
    const hmr = app.service<HarnessHmr>('harnessHmr')
    let leave = () => {}
    void app.service('agents')['scope'].run({ id: 'ada' }, () => new Promise<void>(resolve => (leave = resolve)))
    await app.edit('agents.ts', v2)
    expect(hmr.status.abandoned).toMatchObject([{ provider: 'agents 1', boundaries: [{ label: 'ada' }] }])
    leave()
    await app.next('audit')
    await app.edit('agents.ts', source => `${source} =`)
    expect(hmr.status).toMatchObject({ state: 'running', dirty: [join(app.root, 'agents.ts')] })
    // A watcher may announce a save twice; the second time the content is the same.
    const outcomes = hmr.reports.map(({ outcome }) => outcome).filter(outcome => outcome !== 'ignored')
    expect(outcomes).toEqual(['reloaded', 'kept'])
  })
})
