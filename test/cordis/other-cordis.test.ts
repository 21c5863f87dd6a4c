import { expect, test } from 'vitest'
import { createApp, seq } from '../fixtures/app.ts'

const schema = `{ '~standard': { version: 1, vendor: 'test', validate: value => ({ value: { every: 1, ...value } }) } }`

test('a harness on @deepseek-ai/cordis is reloaded, rolled back and collected like one on cordis', async () => {
  const app = await createApp({
    'harness.ts': `
      import Agents from './agents.ts'
      import Loop from './loop.ts'
      export default function harness(ctx) {
        ctx.plugin(Agents, { size: 1 })
        ctx.plugin(Loop)
      }`,
    'agents.ts': `
      import { Service } from '@deepseek-ai/cordis'
      import { BoundaryScope } from 'harness-hmr/scope'
      export default class Agents extends Service {
        static Config = ${schema}
        version = 'v1'
        scope = new BoundaryScope({ name: 'agents' })
        constructor(ctx, config) {
          super(ctx, 'agents')
          seq.push(this.version + ' up ' + JSON.stringify(config))
          ctx.effect(() => async () => {
            await this.scope.dispose()
            seq.push(this.version + ' down')
          })
        }
      }`,
    'loop.ts': `
      export default class Loop {
        static inject = ['agents']
        constructor(ctx) {
          seq.push('loop on ' + ctx.agents.version)
          ctx.effect(() => () => seq.push('loop off'))
        }
      }`
  })
  await app.next('ready')
  expect(seq).toEqual(['v1 up {"every":1,"size":1}', 'loop on v1'])
  seq.length = 0
  const report = await app.edit('agents.ts', source => source.replace(`'v1'`, `'v2'`).replace('every: 1', 'every: 2'))
  expect(report).toMatchObject({ outcome: 'reloaded', failures: [], providers: [{ name: 'agents', from: 1, to: 2 }] })
  expect(seq).toEqual(['loop off', 'v1 down', 'v2 up {"every":2,"size":1}', 'loop on v2'])
  expect(await app.next('audit')).toMatchObject({ outcome: 'collected', generation: 1 })
  seq.length = 0
  const broken = await app.edit('agents.ts', source => source.replace('seq.push(', `throw new Error('no'); seq.push(`))
  expect(broken).toMatchObject({ outcome: 'rolled-back', error: { message: 'no' } })
  expect(seq).toEqual(['loop off', 'v2 down', 'v2 up {"every":2,"size":1}', 'loop on v2'])
})
