import { AsyncLocalStorage } from 'node:async_hooks'
import { EventEmitter, once } from 'node:events'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { describe, expect, onTestFinished, test } from 'vitest'
import type { AuditReport } from '../../plugin/index.ts'
import { createApp, type App } from '../fixtures/app.ts'
import { bump } from '../fixtures/field-fixture.ts'

/** `trace` is for the Node lines on which the names cost something. */
const options = { trace: true }

const HARNESS = `
  import Agents from './agents.ts'
  export default function harness(ctx: any) { ctx.plugin(Agents) }`

/** A provider that plants something: once per instance (`body`), and at the level of its module (`top`). */
function provider(body: string, top = ''): string {
  return `import { Service } from 'cordis'
import { BoundaryScope } from 'harness-hmr/scope'
${top}
export const version = 1
export default class Agents extends Service {
  scope = new BoundaryScope<object>({ name: 'agents' })
  constructor(ctx: any) {
    super(ctx, 'agents')
    ctx.effect(() => () => this.scope.dispose())
    ${body}
  }
}
`
}

/** Reloads a provider once and returns the verdict on its first generation. */
async function verdict(
  source: string,
  files: Record<string, string> = {}
): Promise<{ app: App; audit: AuditReport; names: string[] }> {
  const app = await createApp({ 'harness.ts': HARNESS, 'agents.ts': source, ...files }, options)
  await app.next('ready')
  expect((await app.edit('agents.ts', bump)).outcome).toBe('reloaded')
  let audit = await app.next('audit')
  while (audit.generation !== 1) audit = await app.next('audit')
  const place = (file: string) => file.replace(`${app.root}/`, '')
  const names = audit.retainers.map(({ what, location }) =>
    location ? `${what} ${place(location.file)}:${location.line}` : what
  )
  return { app, audit, names }
}

/** The line of a source that has a mark. */
const lineOf = (source: string, mark: string) => source.split('\n').findIndex(line => line.includes(mark)) + 1

/** Lets go of what a test has planted, so that the process can go on. */
const planted: (() => unknown)[] = []
Object.assign(globalThis, { planted })
function clean() {
  onTestFinished(endPlanted)
}
/** A function of its own: what a test has in a variable while it waits is kept by that. */
async function endPlanted() {
  for (const end of planted.splice(0)) await end()
}

const NET = `import * as net from 'node:net'`
const HTTP = `import * as http from 'node:http'`

describe('what a replaced provider left running is named with its place', () => {
  test.each([
    ['setInterval', 'const timer = setInterval(() => {}, 1000); planted.push(() => clearInterval(timer))', ''],
    ['setTimeout of 60 s', 'const timer = setTimeout(() => {}, 60000); planted.push(() => clearTimeout(timer))', ''],
    [
      'fs.watch',
      'const watcher = fs.watch(import.meta.dirname); planted.push(() => watcher.close())',
      `import * as fs from 'node:fs'`
    ],
    [
      'fs.watchFile',
      'fs.watchFile(import.meta.filename, () => {}); planted.push(() => fs.unwatchFile(import.meta.filename))',
      `import * as fs from 'node:fs'`
    ],
    ['net.Server', 'const server = net.createServer().listen(0); planted.push(() => server.close())', NET],
    [
      'dgram.Socket',
      `const socket = dgram.createSocket('udp4').bind(0); planted.push(() => socket.close())`,
      `import * as dgram from 'node:dgram'`
    ],
    [
      'child process',
      `const child = spawn(process.execPath, ['-e', 'setInterval(() => {}, 1000)']); planted.push(() => child.kill())`,
      `import { spawn } from 'node:child_process'`
    ],
    [
      'Worker',
      `const worker = new Worker('setInterval(() => {}, 1000)', { eval: true }); planted.push(() => worker.terminate())`,
      `import { Worker } from 'node:worker_threads'`
    ],
    [
      'listener "SIGUSR2" on process',
      `const listener = () => {}; process.on('SIGUSR2', listener); planted.push(() => process.off('SIGUSR2', listener))`,
      ''
    ],
    [
      'http request',
      `const server = http.createServer(() => {}).listen(0, () => { const request = http.get({ port: server.address().port }).on('error', () => {}); planted.push(() => request.destroy()) }); planted.push(() => server.close())`,
      HTTP
    ]
  ])('%s', async (what, body, top) => {
    clean()
    const source = provider(`${body} // planted`, top)
    const { audit, names } = await verdict(source)
    expect(audit.outcome).toBe('retained')
    expect(names).toContain(`${what} agents.ts:${lineOf(source, '// planted')}`)
  })

  test('with the place in a helper that was started by it, and once per generation', async () => {
    clean()
    const { audit, names } = await verdict(`import { tick } from './ticker.ts'\n${provider('tick()')}`, {
      'ticker.ts': `export function tick() {\n  const timer = setInterval(() => {}, 1000)\n  planted.push(() => clearInterval(timer))\n}`
    })
    expect(audit.outcome).toBe('retained')
    expect(names).toEqual(['setInterval ticker.ts:2'])
  })

  test('and for a helper that starts it by itself, when the helper is replaced', async () => {
    clean()
    const app = await createApp(
      {
        'harness.ts': HARNESS,
        'agents.ts': `import './ticker.ts'\n${provider('')}`,
        'ticker.ts': `const version = 1\nconst timer = setInterval(() => {}, 1000)\nplanted.push(() => clearInterval(timer))`
      },
      options
    )
    await app.next('ready')
    await app.edit('agents.ts', bump)
    expect(await app.next('audit')).toMatchObject({ name: 'agents', outcome: 'collected', retainers: [] })
    await app.edit('ticker.ts', bump)
    const audits = [await app.next('audit'), await app.next('audit')]
    expect(audits.find(({ name }) => name === 'ticker')).toMatchObject({
      outcome: 'retained',
      generation: 1,
      retainers: [{ what: 'setInterval', location: { file: `${app.root}/ticker.ts`, line: 2 } }]
    })
    expect(audits.find(({ name }) => name === 'agents')).toMatchObject({ outcome: 'collected' })
  })

  test('and is collected once it has ended', async () => {
    clean()
    const { app, audit } = await verdict(
      provider('const timer = setInterval(() => {}, 1000); planted.push(() => clearInterval(timer))')
    )
    expect(audit.outcome).toBe('retained')
    await endPlanted()
    await app.harness.audit()
    expect(await app.next('audit')).toMatchObject({ generation: 1, outcome: 'collected', retainers: [] })
  })
})

/** A registry whose storage is a plain AsyncLocalStorage, as published ones have it, and a tool that works inside of it. */
const REGISTRY = `
  import { Service } from 'cordis'
  import { AsyncLocalStorage } from 'node:async_hooks'
  export const version = 1
  export default class Agents extends Service {
    storage = new AsyncLocalStorage<object>()
    constructor(ctx: any) {
      super(ctx, 'agents')
      ctx.effect(() => () => this.storage.disable())
    }
    run(agent: object, operation: () => unknown) { return this.storage.run(agent, operation) }
  }`
const TOOL = `import { Service } from 'cordis'
import * as http from 'node:http'
import * as dns from 'node:dns'
export default class Tool extends Service {
  agent = new http.Agent({ keepAlive: true })
  constructor(ctx: any) { super(ctx, 'tool') }
  timer() {
    const timer = setTimeout(() => {}, 60_000) // timer
    planted.push(() => clearTimeout(timer))
  }
  request(url: string) {
    const request = http.get(url).on('error', () => {}) // request
    planted.push(() => request.destroy())
    return new Promise(resolve => request.on('finish', resolve))
  }
  async fetch(url: string) { await (await fetch(url)).text() }
  keepAlive(url: string) {
    planted.push(() => this.agent.destroy())
    return new Promise(resolve => http.get(url, { agent: this.agent }, answer => answer.resume().on('close', resolve))) // keep-alive
  }
  lookup() { return new Promise(resolve => dns.lookup('localhost', resolve)) }
  print() { process.stdout.write('') }
}
`
const TWO = `
  import Agents from './agents.ts'
  import Tool from './tool.ts'
  export default function harness(ctx: any) { ctx.plugin(Agents); ctx.plugin(Tool) }`

/** Whether a storage lives as long as what was started inside: with AsyncContextFrame. */
const keepsStorage = !('_enable' in AsyncLocalStorage.prototype)

/** Answers `/`, and never `/hang`. */
async function serve(): Promise<string> {
  const server = createServer((request, response) => void (request.url === '/hang' || response.end('yes')))
  await once(server.listen(0, '127.0.0.1'), 'listening')
  onTestFinished(() => {
    server.closeAllConnections()
    server.close()
  })
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`
}

describe('what was started inside of a storage by another provider', () => {
  const start = async (registry: string, work: (tool: Record<string, any>, url: string) => unknown) => {
    clean()
    const app = await createApp({ 'harness.ts': TWO, 'agents.ts': registry, 'tool.ts': TOOL }, options)
    await app.next('ready')
    const url = await serve()
    await app.service('agents')['run']({ id: 'ada' }, () => work(app.service('tool'), url))
    expect((await app.edit('agents.ts', bump)).outcome).toBe('reloaded')
    const audit = await app.next('audit')
    return { audit, app }
  }
  const place = (app: App, mark: string) => ({ file: `${app.root}/tool.ts`, line: lineOf(TOOL, mark) })

  test.each([
    ['a timer', 'setTimeout of 60 s', '// timer', (tool: any) => void tool.timer()],
    [
      'a keep-alive socket',
      'keep-alive socket of an http.Agent',
      '// keep-alive',
      (tool: any, url: string) => tool.keepAlive(url)
    ],
    ['an http request', 'http request', '// request', (tool: any, url: string) => tool.request(`${url}/hang`)]
  ])('%s is what keeps it, and not the provider', async (_, what, mark, work) => {
    const { audit, app } = await start(REGISTRY, work)
    expect(audit.instances).toEqual({ created: 1, collected: 1 })
    if (!keepsStorage)
      return expect(audit).toMatchObject({ outcome: 'collected', storages: { created: 1, collected: 1 } })
    expect(audit).toMatchObject({ outcome: 'retained', storages: { created: 1, collected: 0 } })
    expect(audit.retainers).toMatchObject([{ what, location: place(app, mark) }])
    await endPlanted()
    await app.harness.audit()
    expect(await app.next('audit')).toMatchObject({ outcome: 'collected', retainers: [] })
  })

  test('what it carried is counted apart, and is released with a BoundaryScope', async () => {
    const timer = (tool: Record<string, any>) => void tool['timer']()
    const plain = await start(REGISTRY, timer)
    expect(plain.audit.stores).toEqual({ created: 1, collected: 0 })
    const scoped = REGISTRY.replace('new AsyncLocalStorage<object>()', `new BoundaryScope<object>({ name: 'agents' })`)
      .replace('disable()', 'dispose()')
      .replace(
        `import { AsyncLocalStorage } from 'node:async_hooks'`,
        `import { BoundaryScope } from 'harness-hmr/scope'`
      )
    const { audit } = await start(scoped, timer)
    expect(audit.stores).toEqual({ created: 1, collected: 1 })
  })

  test('the pool of fetch is named as what keeps it', async () => {
    const { audit } = await start(REGISTRY, (tool, url) => tool['fetch'](url))
    if (!keepsStorage) return expect(audit).toMatchObject({ outcome: 'collected', retainers: [] })
    expect(audit).toMatchObject({ outcome: 'retained', instances: { collected: 1 } })
    expect(audit.retainers.map(({ what }) => what)).toEqual(['socket of fetch'])
  })

  test('a run that does not settle is named with the place that opened it', async () => {
    const waits = 'void this.run({}, async () => { await new Promise(resolve => planted.push(resolve)) })'
    const { audit, app } = await start(REGISTRY.replace('ctx.effect(', `${waits}; ctx.effect(`), () => {})
    // What it waits in has the instance as its `this`, and with that the storage.
    expect(audit).toMatchObject({ outcome: 'retained', instances: { created: 1, collected: 0 } })
    const location = { file: `${app.root}/agents.ts`, line: lineOf(REGISTRY, 'this.storage.run') }
    expect(audit.retainers).toMatchObject([{ what: 'run of "AsyncLocalStorage.run()" that has not settled', location }])
  })

  test('nothing is kept by what Node makes once for the whole process', async () => {
    const { audit } = await start(REGISTRY, async (tool: Record<string, any>) => {
      await tool['lookup']()
      tool['print']()
    })
    expect(audit).toMatchObject({ outcome: 'collected', retainers: [] })
  })
})

/** A provider that uses all of it, and ends what it has started. */
const TIDY = `
import { Service } from 'cordis'
import { AsyncLocalStorage } from 'node:async_hooks'
import { spawn } from 'node:child_process'
import * as fs from 'node:fs'
import * as http from 'node:http'
import * as net from 'node:net'
import * as dns from 'node:dns'
import { setTimeout as sleep } from 'node:timers/promises'
import { Worker } from 'node:worker_threads'
export const version = 1
const agent = new http.Agent({ keepAlive: true })
export default class Agents extends Service {
  storage = new AsyncLocalStorage<object>()
  history: unknown[] = []
  constructor(ctx: any) {
    super(ctx, 'agents')
    ctx.effect(() => {
      const timer = setInterval(() => this.history.push(1), 1000)
      const late = setTimeout(() => this.history.push(2), 60_000)
      const watcher = fs.watch(import.meta.dirname)
      const server = net.createServer(() => this.history.push(3)).listen(0)
      const worker = new Worker('setInterval(() => {}, 1000)', { eval: true })
      const child = spawn(process.execPath, ['-e', 'setInterval(() => {}, 1000)'])
      const onSignal = () => this.history.push(4)
      process.on('SIGUSR2', onSignal)
      bus.on('tick', onSignal)
      return async () => {
        clearInterval(timer)
        clearTimeout(late)
        watcher.close()
        process.off('SIGUSR2', onSignal)
        bus.off('tick', onSignal)
        child.kill()
        await Promise.all([new Promise(end => server.close(end)), worker.terminate(), new Promise(end => child.once('exit', end))])
        this.storage.disable()
      }
    })
  }
  work(url: string) {
    return this.storage.run({ id: 'ada' }, async () => {
      await new Promise(end => http.get(url, { agent }, answer => answer.resume().on('close', end)))
      await new Promise(end => dns.lookup('localhost', end))
      await sleep(1)
      this.history.push(new Error('kept, but not for long'))
      agent.destroy()
    })
  }
}`

describe('what ends what it has started', () => {
  test('is never called retained, in 200 reloads', async () => {
    clean()
    Object.assign(globalThis, { bus: new EventEmitter() })
    const app = await createApp({ 'harness.ts': HARNESS, 'agents.ts': TIDY }, options)
    await app.next('ready')
    const url = await serve()
    const verdicts: string[] = []
    app.harness.listen({
      audit: ({ generation, outcome, retainers }) =>
        void verdicts.push(`${generation} ${outcome} ${retainers.map(({ what }) => what).join()}`)
    })
    const once = async () => {
      await app.service('agents')['work'](url)
      app.harness.invalidate([`${app.root}/agents.ts`])
      expect((await app.next('reload')).outcome).toBe('reloaded')
    }
    for (let n = 1; n <= 200; n++) await once()
    await app.harness.audit()
    expect(verdicts.filter(verdict => !verdict.includes('collected'))).toEqual([])
    expect(verdicts).toHaveLength(200)
  }, 120_000)
})

describe('a search through the heap', () => {
  test('names the variable of another module that keeps a retired instance, and says it in the terminal', async () => {
    const app = await createApp({
      'harness.ts': HARNESS,
      'agents.ts': `import { history } from './history.ts'\n${provider('history.push(this)')}`,
      'history.ts': `export const history: object[] = []`
    })
    await app.next('ready')
    await app.edit('agents.ts', bump)
    expect(await app.next('audit')).toMatchObject({ outcome: 'retained', retainers: [] })
    const stages: string[] = []
    app.harness.listen({ progress: ({ stage }) => void stages.push(stage) })
    const [report] = await app.harness.why()
    expect(report).toMatchObject({ type: 'why', name: 'agents', generation: 1 })
    const retainer = report!.found.find(({ object }) => object === 'service 1 of agents 1')?.retainer
    expect(retainer).toMatchObject({
      what: 'module-level array "history"',
      location: { file: `${app.root}/history.ts`, line: 1 }
    })
    expect([...new Set(stages)]).toEqual(['snapshot', 'parse', 'search'])
    expect(app.lines.at(-1)).toContain('module-level array "history"  history.ts:1')
  }, 60_000)

  test('is not needed where nothing but a timer is left: that is named at once', async () => {
    clean()
    const timer = 'const timer = setInterval(() => {}, 1000); planted.push(() => clearInterval(timer)) // planted'
    const source = provider('', timer)
    const { app } = await verdict(source)
    const [report] = await app.harness.why()
    expect(report).toMatchObject({
      found: [{ retainer: { what: 'setInterval', location: { line: lineOf(source, '// planted') } } }],
      ms: { blocked: 0 }
    })
    expect(await app.harness.why({ module: `${app.root}/other.ts`, generation: 1 })).toEqual([])
  })
})
