/** What a retired generation runs on, in all the ways in which that can begin; and what only looks like it. */
import { EventEmitter } from 'node:events'
import inspector from 'node:inspector'
import { describe, expect, onTestFinished, test } from 'vitest'
import type { AuditReport } from '../../plugin/index.ts'
import { type App, createApp, createFolder, gate } from '../fixtures/app.ts'
import { forced } from '../gc.ts'
import { bump, composing, service } from '../fixtures/field-fixture.ts'

/** `trace` is for the Node lines on which the names cost something. */
const options = { trace: true }

/** Lets go of what a test has planted, so that the process can go on. */
const planted: (() => unknown)[] = []
const bus = new EventEmitter()
Object.assign(globalThis, { planted, bus })
function clean() {
  onTestFinished(async () => {
    await endPlanted()
    bus.removeAllListeners()
  })
}
/** A function of its own: what a test has in a variable while it waits is kept by that. */
async function endPlanted() {
  for (const end of planted.splice(0)) await end()
}

async function boot(files: Record<string, string>, more = {}): Promise<App> {
  clean()
  const app = await createApp({ 'harness.ts': composing('./agents.ts'), ...files }, { ...options, ...more })
  await app.next('ready')
  return app
}

/** The audit of a generation, whatever else is audited meanwhile. */
async function auditOf(app: App, name: string, generation: number): Promise<AuditReport> {
  for (;;) {
    const audit = await app.next('audit')
    if (audit.name === name && audit.generation === generation) return audit
  }
}

/** Retainers as `what file:line`. */
const named = (app: App, { retainers }: AuditReport) =>
  retainers
    .map(({ what, location }) =>
      location ? `${what} ${location.file.replace(`${app.root}/`, '')}:${location.line}` : what
    )
    .toSorted()

/** The lines of a source that have a mark like `// setInterval`, as {@link named} shows them. */
const marked = (file: string, source: string) =>
  source
    .split('\n')
    .flatMap((line, i) => {
      const what = / \/\/ (.*)$/.exec(line)?.[1]
      return what ? [`${what} ${file}:${i + 1}`] : []
    })
    .toSorted()

const STARTS = `import { Service } from 'cordis'
import { exec } from 'node:child_process'
import * as dgram from 'node:dgram'
import * as fsp from 'node:fs/promises'
import * as net from 'node:net'
import * as tls from 'node:tls'
import * as timers from 'node:timers/promises'
type Ends = { ended: boolean }
const ends: Ends = { ended: false }
planted.push(() => void (ends.ended = true))
const ignore = () => {}
async function polls() {
  while (!ends.ended) {
    await null
    await timers.setTimeout(40) // setTimeout of 0.04 s
  }
}
async function iterates(signal: AbortSignal) {
  for await (const _ of timers.setInterval(50, undefined, { signal })) ignore() // setInterval
}
async function watches(signal: AbortSignal) {
  for await (const _ of fsp.watch(import.meta.dirname, { signal })) ignore() // fs.watch
}
function again() {
  if (!ends.ended) setTimeout(again, 30) // setTimeout of 0.03 s
}
export default class agents extends Service {
  version = 1
  static {
    const timer = setInterval(ignore, 1000) // setInterval
    planted.push(() => clearInterval(timer))
  }
  field = this.later(() => setInterval(ignore, 100).unref()) // setInterval
  constructor(ctx: any) {
    super(ctx, 'agents')
    const { signal } = new AbortController()
    const stop = new AbortController()
    planted.push(() => stop.abort())
    again()
    void polls()
    void iterates(stop.signal).catch(ignore)
    void watches(stop.signal).catch(ignore)
    process.once('SIGUSR2', ignore) // listener "SIGUSR2" on process
    const server = net.createServer(socket => void sockets.push(socket)).listen(0, 'localhost', () => { // net.Server
      const socket = net.connect((server.address() as net.AddressInfo).port, 'localhost', () => gate('up').resolve()) // socket
      socket.on('error', ignore)
      planted.push(() => socket.destroy())
    })
    const sockets: net.Socket[] = []
    const secure = tls.createServer().listen(0, '127.0.0.1') // net.Server
    const udp = dgram.createSocket('udp4').bind(0, 'localhost') // dgram.Socket
    const child = exec(JSON.stringify(process.execPath) + ' -e "setInterval(() => {}, 1000)"') // child process
    const { port1 } = new MessageChannel() // MessagePort
    port1.onmessage = ignore
    const channel = new BroadcastChannel('harness-hmr') // MessagePort
    channel.onmessage = ignore
    bus.once('later', async () => {
      await null
      const timer = setInterval(ignore, 1000)
      planted.push(() => clearInterval(timer))
    })
    planted.push(() => sockets.forEach(socket => socket.destroy()))
    planted.push(() => server.close(), () => secure.close(), () => udp.close(), () => child.kill())
    planted.push(() => port1.close(), () => channel.close(), () => process.off('SIGUSR2', ignore))
  }
  later<T extends { [Symbol.dispose]?: unknown } | object>(start: () => T): T {
    const started = start()
    planted.push(() => clearInterval(started as never))
    return started
  }
}
`

test('everything that runs on is named once, with its line, however it was started', async () => {
  const app = await boot({ 'agents.ts': STARTS })
  await gate('up').promise
  await app.edit('agents.ts', bump)
  const audit = await auditOf(app, 'agents', 1)
  expect(audit.outcome).toBe('retained')
  expect(named(app, audit)).toEqual(marked('agents.ts', STARTS))
})

describe('servers, processes, workers and listeners', () => {
  test('are named on every Node line without `trace`', async () => {
    const source = service(
      'agents',
      `const server = createServer().listen(0, '127.0.0.1', () => gate('up').resolve()) // net.Server
        const child = spawn(process.execPath, ['-e', 'setInterval(() => {}, 1000)']) // child process
        const worker = new Worker('setInterval(() => {}, 1000)', { eval: true }) // Worker
        const listener = () => {}
        process.on('SIGUSR2', listener) // listener "SIGUSR2" on process
        planted.push(() => server.close(), () => child.kill(), () => worker.terminate(), () => process.off('SIGUSR2', listener))`,
      `import { createServer } from 'node:net'
import { spawn } from 'node:child_process'
import { Worker } from 'node:worker_threads'`
    )
    const app = await boot({ 'agents.ts': source }, { trace: false })
    await gate('up').promise
    await app.edit('agents.ts', bump)
    expect(named(app, await auditOf(app, 'agents', 1))).toEqual(marked('agents.ts', source))
  })
})

describe('what an older generation starts', () => {
  test('after it was collected is named at the next reload', async () => {
    const app = await boot({
      'agents.ts': service(
        'agents',
        `bus.once('later', () => { const timer = setInterval(() => {}, 1000); planted.push(() => clearInterval(timer)) })`
      )
    })
    await app.edit('agents.ts', bump)
    expect(await auditOf(app, 'agents', 1)).toMatchObject({ outcome: 'collected' })
    bus.emit('later')
    await app.edit('agents.ts', bump)
    expect(await auditOf(app, 'agents', 1)).toMatchObject({
      outcome: 'retained',
      instances: { created: 0 },
      retainers: [{ what: 'setInterval' }]
    })
  })

  const ticker = (body = '') => `
    export const version = 1
    const timer = setInterval(() => {}, 1000)
    planted.push(() => clearInterval(timer))
    ${body}`

  test('is named for a version that failed to evaluate, for one that was rolled back, and for a module that is dropped', async () => {
    const app = await boot({
      'agents.ts': `import { version as ticks } from './ticker.ts'\n${service('agents', `if (ticks === 3) throw new Error('three')`)}`,
      'ticker.ts': ticker()
    })
    const left = async (generation: number) =>
      expect(await auditOf(app, 'ticker', generation)).toMatchObject({
        outcome: 'retained',
        retainers: [{ what: 'setInterval', location: { file: `${app.root}/ticker.ts`, line: 3 } }]
      })
    expect((await app.edit('ticker.ts', ticker(`throw new Error('broken')`))).outcome).toBe('kept')
    await left(2)
    expect((await app.edit('ticker.ts', ticker().replace('1', '3'))).outcome).toBe('rolled-back')
    // The old code was evaluated again.
    await left(1)
    await left(3)
    expect((await app.edit('ticker.ts', ticker().replace('1', '5'))).outcome).toBe('reloaded')
    await left(4)
    const alone = (source: string) => source.replace(/import .*ticker.*\n/, 'const ticks: number = 6\n')
    expect((await app.edit('agents.ts', alone)).outcome).toBe('reloaded')
    await left(5)
  })
})

test('an instance that was undone by a rollback and lives on is called retained', async () => {
  const app = await boot({
    'harness.ts': composing('./agents.ts', './tool.ts'),
    'shared.ts': 'export const edition: number = 1',
    'agents.ts': service(
      'agents',
      'if (edition === 2) kept.push(() => this)',
      `import { edition } from './shared.ts'\nconst kept = (globalThis as any).planted`
    ),
    'tool.ts': service('tool', `if (edition === 2) throw new Error('two')`, `import { edition } from './shared.ts'`)
  })
  expect((await app.edit('shared.ts', 'export const edition: number = 2')).outcome).toBe('rolled-back')
  expect(await auditOf(app, 'agents', 2)).toMatchObject({
    outcome: 'retained',
    instances: { created: 1, collected: 0 }
  })
  expect(await auditOf(app, 'agents', 1)).toMatchObject({ outcome: 'collected' })
})

describe('a clean provider', () => {
  test('is not blamed for objects that it shares, nor for what packages start on its behalf', async () => {
    const app = await boot({
      'harness.ts': `
        import Agents from './app/agents.ts'
        export const settings = { model: 'small' }
        export default function harness(ctx: any) { ctx.plugin(Agents, settings) }`,
      // A module that is not evaluated by the harness, as a package is not.
      'app/node_modules/pool/package.json': '{ "name": "pool", "type": "module", "exports": "./index.js" }',
      'app/node_modules/pool/index.js': `
        import * as net from 'node:net'
        let timer, socket, worker
        export const query = port => new Promise(resolve => {
          timer ??= setInterval(() => {}, 10_000)
          socket ??= net.connect(port, '127.0.0.1', resolve)
          process.listeners('pool').length || process.on('pool', () => {})
        })
        export const end = () => { clearInterval(timer); socket?.destroy(); process.removeAllListeners('pool') }`,
      'app/agents.ts': service(
        'agents',
        `ctx.provide('settings', config)
        ctx.provide('environment', process.env)
        const server = createServer().listen(0, '127.0.0.1', async () => {
          planted.push(end)
          await query(server.address().port)
          gate('queried').resolve()
        })
        ctx.effect(() => () => new Promise(done => { server.close(done); gate('closed').resolve() }))
        server.on('connection', socket => gate('closed').promise.then(() => socket.destroy()))`,
        `import { createServer } from 'node:net'
        import { query, end } from 'pool'`
      )
    })
    await gate('queried').promise
    await app.edit('app/agents.ts', bump)
    expect(await auditOf(app, 'agents', 1)).toMatchObject({ outcome: 'collected', retainers: [] })
  })

  test('has one name over a rollback whose old version did not come back, and each generation is audited once', async () => {
    const app = await boot({
      'agents.ts': service(
        'agents',
        `if (version > 1 || seq.includes('fail')) { seq.push('fail'); throw new Error('no') }`
      )
    })
    const audits: string[] = []
    app.harness.listen({
      audit: ({ name, generation, outcome }) => void audits.push(`${name} ${generation} ${outcome}`)
    })
    const { outcome, failures } = await app.edit('agents.ts', bump)
    expect(outcome).toBe('rolled-back')
    expect(failures.join()).toContain('did not come back')
    await app.harness.audit()
    const report = await app.edit('agents.ts', source => bump(source).replace(/if \(version.*\n/, '\n'))
    expect(report).toMatchObject({ outcome: 'reloaded', providers: [{ name: 'agents', from: 3 }] })
    await app.harness.audit()
    await app.edit('agents.ts', bump)
    await app.harness.audit()
    expect(audits.filter(line => !line.startsWith('agents 2'))).toEqual(['agents 1 collected', 'agents 4 collected'])
  })

  test('is collected once its abandoned drain has ended, also when it has forgotten its storage', async () => {
    const app = await boot(
      {
        'agents.ts': service(
          'agents',
          `const storage = new AsyncLocalStorage()
          storage.enterWith({})
          this.storage = storage
          if (version === 1) ctx.effect(() => () => gate('drain').promise)`,
          `import { AsyncLocalStorage } from 'node:async_hooks'`
        )
      },
      { deadline: 20, warnAfter: 10 }
    )
    expect(await app.edit('agents.ts', bump)).toMatchObject({ outcome: 'reloaded', providers: [{ abandoned: true }] })
    expect(await auditOf(app, 'agents', 1)).toMatchObject({ outcome: 'pending', forgotten: [] })
    gate('drain').resolve()
    expect(await auditOf(app, 'agents', 1)).toMatchObject({
      outcome: 'collected',
      storages: { created: 1, collected: 1 },
      forgotten: [{ file: `${app.root}/agents.ts` }]
    })
  })
})

/** A registry as published ones are, with a plain AsyncLocalStorage, and a provider that works inside of it. */
const REGISTRY = service(
  'agents',
  `ctx.effect(() => () => this.storage.disable())`,
  `import { AsyncLocalStorage } from 'node:async_hooks'`
).replace(
  'version = 1',
  `version = 1
      storage = new AsyncLocalStorage<object>()
      run(agent: object, operation: () => unknown) { return this.storage.run(agent, operation) }`
)

describe('a registry whose storage is entered for others', () => {
  test('is not kept by what the dev server and the harness do for whoever is inside', async () => {
    const elsewhere = createFolder({ 'far.ts': 'export {}' })
    const app = await boot({
      'harness.ts': composing('./agents.ts', './tool.ts'),
      'agents.ts': REGISTRY,
      'tool.ts': service(
        'tool',
        `const far = ${JSON.stringify(`${elsewhere}/far.ts`)}
        this.work = async () => {
          ctx.harnessHmr.request('tool.ts')
          const { late } = await import('./late.ts')
          await import(far)
          const off = ctx.harnessHmr.browsers.on('ping', () => {})
          off()
          await new Promise(resolve => setTimeout(resolve, 5))
          return late
        }`
      ),
      'late.ts': `export const late = true`
    })
    expect(await app.service('agents')['run']({}, app.service('tool')['work'])).toBe(true)
    await app.edit('agents.ts', bump)
    expect(await auditOf(app, 'agents', 1)).toMatchObject({ outcome: 'collected', retainers: [] })
  })

  test('is not said to be kept by what was started outside of it, where the storage has a default value', async () => {
    const app = await boot({
      'agents.ts': REGISTRY.replace('AsyncLocalStorage<object>()', `AsyncLocalStorage<object>({ defaultValue: {} })`)
    })
    const timer = setInterval(() => {}, 1000)
    planted.push(() => clearInterval(timer))
    app.service('agents')['run']({}, () => {})
    const kept = [app.service('agents')]
    await app.edit('agents.ts', bump)
    expect(await auditOf(app, 'agents', 1)).toMatchObject({ outcome: 'retained', retainers: [] })
    kept.pop()
  })

  test.each([
    ['a plain storage', REGISTRY],
    [
      'a scope',
      REGISTRY.replace('AsyncLocalStorage<object>()', 'BoundaryScope<object>()')
        .replace('disable()', 'dispose()')
        .replace(/import .* 'node:async_hooks'/, `import { BoundaryScope } from 'harness-hmr/scope'`)
    ]
  ])('is not blamed for what a driver starts in a callback inside of %s, and its provider is', async (_, registry) => {
    const tool = `import { drive } from './drivers.ts'
export const version = 1
export const name = 'tool'
export const inject = ['agents']
export function apply(ctx: any) {
  const stop = drive(ctx.agents)
  if (version > 1) ctx.effect(() => stop)
}`
    const app = await boot({
      'harness.ts': `
        import Agents from './agents.ts'
        import * as tool from './tool.ts'
        export default function harness(ctx: any) { ctx.plugin(Agents); ctx.plugin(tool) }`,
      'agents.ts': registry,
      'drivers.ts': `export const drive = (agents: any) => agents.run({ id: 'ada' }, () => beat())
function beat() {
  const timer = setInterval(() => {}, 1000)
  const stop = () => clearInterval(timer)
  planted.push(stop)
  return stop
}`,
      'tool.ts': tool
    })
    await app.edit('tool.ts', bump)
    expect(await auditOf(app, 'tool', 1)).toMatchObject({
      outcome: 'retained',
      retainers: [{ what: 'setInterval', location: { file: `${app.root}/drivers.ts`, line: 3 } }]
    })
    await endPlanted()
    await app.edit('agents.ts', bump)
    expect(await auditOf(app, 'agents', 1)).toMatchObject({ outcome: 'collected', retainers: [] })
  })
})

test('what was logged while an inspector is attached is said to be kept by its console', async () => {
  inspector.open(0, '127.0.0.1')
  onTestFinished(() => inspector.close())
  const app = await boot({
    'agents.ts': service('agents', 'if (version === 1) console.log(this)', `import { console } from 'node:inspector'`)
  })
  await app.edit('agents.ts', bump)
  expect(await auditOf(app, 'agents', 1)).toMatchObject({
    outcome: 'retained',
    retainers: [{ what: 'console of the attached inspector, if it was logged there' }]
  })
  await app.edit('agents.ts', bump)
  expect(await auditOf(app, 'agents', 2)).toMatchObject({ outcome: 'collected' })
})

test('two harnesses of one process with the same files do not take each other for leftovers', async () => {
  const source = service(
    'agents',
    'const timer = setInterval(() => {}, 1000); ctx.effect(() => () => clearInterval(timer))'
  )
  const first = await boot({ 'agents.ts': source })
  const audits: string[] = []
  const second = new Promise<App>(resolve => {
    void createApp({}, { ...options, entry: `${first.root}/harness.ts` }, { root: first.root }).then(resolve)
  })
  const other = await second
  await other.next('ready')
  for (const { harness } of [first, other]) {
    harness.listen({ audit: ({ name, generation, outcome }) => void audits.push(`${name} ${generation} ${outcome}`) })
  }
  const both = [first.edit('agents.ts', bump), other.next('reload')]
  for (const reload of both) expect((await reload).outcome).toBe('reloaded')
  await Promise.all([first.harness.audit(), other.harness.audit()])
  await first.harness.audit()
  expect(audits.toSorted()).toEqual(['agents 1 collected', 'agents 2 collected'])
})

test('after a leak, a reload that leaves nothing does not look again and again for what was found retained', async () => {
  const app = await boot({
    'agents.ts': service(
      'agents',
      `if (version === 1) kept.push(() => this)`,
      'const kept = (globalThis as any).planted'
    )
  })
  await app.edit('agents.ts', bump)
  expect(await auditOf(app, 'agents', 1)).toMatchObject({ outcome: 'retained' })
  const count = forced()
  for (let generation = 2; generation <= 5; generation++) {
    await app.edit('agents.ts', bump)
    expect(await auditOf(app, 'agents', generation)).toMatchObject({ outcome: 'collected' })
  }
  // One or two each; all looks at one that stays are five.
  expect(count()).toBeGreaterThan(0)
  expect(count()).toBeLessThanOrEqual(8)
})
