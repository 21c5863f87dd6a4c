import { once } from 'node:events'
import { createServer, type AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { describe, expect, onTestFinished, test } from 'vitest'
import type { AuditReport } from '../../plugin/index.ts'
import { type App, createApp, seq } from '../fixtures/app.ts'
import { bump, composing, service } from '../fixtures/field-fixture.ts'

const files = { 'harness.ts': composing('./agents.ts'), 'agents.ts': service('agents') }
const version = (app: App) => app.service('agents')?.['version'] as number | undefined

async function reloads(app: App, count: number): Promise<void> {
  for (let i = 0; i < count; i++) expect((await app.edit('agents.ts', bump)).outcome).toBe('reloaded')
}

describe('a provider that listens', () => {
  const listening = (on: string) =>
    service(
      'agents',
      `const server = createServer(socket => socket.end(String(version)))
    ctx.effect(() => () => new Promise(resolve => server.close(resolve)))
    server.on('error', error => void seq.push(String(error)))
    server.listen(${on}, () => seq.push('listening ' + version))`,
      `import { createServer } from 'node:net'`
    )
  const errors = () => seq.filter(line => line.includes('Error'))

  test('on a fixed port is bound once, after each of ten reloads', async () => {
    const free = createServer().listen(0, '127.0.0.1')
    await once(free, 'listening')
    const { port } = free.address() as AddressInfo
    await new Promise(resolve => free.close(resolve))
    const app = await createApp({ ...files, 'agents.ts': listening(`${port}, '127.0.0.1'`) })
    await app.next('ready')
    await reloads(app, 10)
    expect(errors()).toEqual([])
    expect(seq.filter(line => line.endsWith('down'))).toHaveLength(10)
  })

  test.skipIf(process.platform === 'win32')(
    'on a unix socket is bound once after five rapid saves, with the last content',
    async () => {
      const socket = join(tmpdir(), `harness-hmr-${process.pid}.sock`)
      const source = listening(`'${socket}'`)
      const app = await createApp({ ...files, 'agents.ts': source })
      await app.next('ready')
      for (let i = 2; i <= 6; i++) {
        app.write('agents.ts', source.replace('version = 1', `version = ${i}`))
        await new Promise(resolve => setTimeout(resolve, 10))
      }
      while (version(app) !== 6) await app.next('reload')
      await app.harness.idle()
      expect(errors()).toEqual([])
      const count = (what: string) => seq.filter(line => line.endsWith(what)).length
      expect(count('up') - count('down')).toBe(1)
    }
  )
})

describe('a listener on an emitter that outlives the provider', () => {
  const listens = (cleans: boolean) =>
    service(
      'agents',
      `const listener = () => void this.version
    process.on('SIGUSR2', listener)
    ${cleans ? `ctx.effect(() => () => process.off('SIGUSR2', listener))` : ''}`
    )
  const count = () => process.listenerCount('SIGUSR2')

  test('leaves its number the same over 20 reloads, without a warning, when the provider takes it away', async () => {
    const warnings: string[] = []
    const warn = ({ name }: Error) => void warnings.push(name)
    process.on('warning', warn)
    onTestFinished(() => void process.off('warning', warn))
    const app = await createApp({ ...files, 'agents.ts': listens(true) })
    await app.next('ready')
    await reloads(app, 20)
    await new Promise(resolve => setImmediate(resolve))
    expect(count()).toBe(1)
    expect(warnings).toEqual([])
  })

  test('has its provider named as retained when nobody takes it away', async () => {
    onTestFinished(() => void process.removeAllListeners('SIGUSR2'))
    const app = await createApp({ ...files, 'agents.ts': listens(false) })
    await app.next('ready')
    await reloads(app, 1)
    expect(await app.next('audit')).toMatchObject({ name: 'agents', generation: 1, outcome: 'retained' })
    expect(count()).toBe(2)
  })

  // The audit looks at instances and storages; nobody counts what a generation leaves on emitters.
  test('is named also when it does not hold the instance', async () => {
    onTestFinished(() => void process.removeAllListeners('SIGUSR2'))
    const app = await createApp({ ...files, 'agents.ts': service('agents', `process.on('SIGUSR2', () => {})`) })
    await app.next('ready')
    const report = await app.edit('agents.ts', bump)
    const audit = await app.next('audit')
    expect(count() === 1 || /SIGUSR2|retained/.test(JSON.stringify([report, audit, app.lines]))).toBe(true)
  })
})

test('a dev server that is restarted eleven times leaves no listener of ours and warns of none', async () => {
  const warnings: string[] = []
  const warn = ({ name, message }: Error) => void warnings.push(`${name} ${message}`)
  process.on('warning', warn)
  onTestFinished(() => void process.off('warning', warn))
  const counts = () =>
    (['SIGINT', 'SIGHUP', 'SIGTERM', 'exit', 'uncaughtException'] as const).map(name => process.listenerCount(name))
  const app = await createApp(files)
  await app.next('ready')
  const before = counts()
  for (let i = 0; i < 11; i++) {
    const followed = app.server.restart().then(() => app.follow())
    await followed
  }
  await new Promise(resolve => setImmediate(resolve))
  expect(counts()).toEqual(before)
  expect(warnings).toEqual([])
  expect(seq.filter(line => line.endsWith('up'))).toHaveLength(12)
  expect(seq.filter(line => line.endsWith('down'))).toHaveLength(11)
}, 30_000)

test('a storage per instance that nobody disables is disabled and named each time, and none is left over 200 reloads', async () => {
  const app = await createApp({
    'harness.ts': `
      import Agents from './agents.ts'
      export default function harness(ctx: any) { ctx.plugin(Agents) }`,
    'agents.ts': `
      import { AsyncLocalStorage } from 'node:async_hooks'
      export default class Agents {
        static inject = []
        storage = new AsyncLocalStorage<object>()
        constructor(ctx: any) {
          this.storage.enterWith({})
          ctx.provide('agents', this)
        }
      }`
  })
  await app.next('ready')
  const audits: AuditReport[] = []
  app.harness.listen({ audit: report => void audits.push(report) })
  for (let reload = 1; reload <= 200; reload++) {
    app.harness.invalidate([`${app.root}/agents.ts`])
    await app.next('reload')
  }
  await app.harness.audit()
  expect(audits).toHaveLength(200)
  expect(audits.filter(({ outcome }) => outcome !== 'collected')).toEqual([])
  expect(audits.every(({ forgotten: [place] }) => place?.line === 5 && place.file.endsWith('/agents.ts'))).toBe(true)
  expect(app.harness.running!.ledger.live()).toHaveLength(1)
}, 60_000)
