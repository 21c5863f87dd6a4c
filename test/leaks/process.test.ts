/** What the harness does to the process it runs in: nothing, unless an error is its own. */
import { once } from 'node:events'
import { cpSync } from 'node:fs'
import { type AddressInfo, createServer } from 'node:net'
import { join } from 'node:path'
import { beforeAll, describe, expect, onTestFinished, test } from 'vitest'
import { type App, createApp, createFolder, gate } from '../fixtures/app.ts'
import { builtPackage, run } from '../fixtures/built.ts'
import { bump, composing, service } from '../fixtures/field-fixture.ts'

const { folder } = builtPackage()
beforeAll(() => {
  // A copy of its own for each, as a restart of the dev server may load the package again.
  for (const n of [0, 1]) cpSync(join(folder, 'dist'), join(folder, `dist${n}`), { recursive: true })
})

const WORLD = `
import { pathToFileURL } from 'node:url'
import { createServer } from 'vite'
const [folder, count, ...failures] = process.argv.slice(2)
globalThis.seq = []
for (let n = 0; n < 2; n++) {
  const { harnessHmr } = await import(pathToFileURL(folder + '/dist' + n + '/index.js').href)
  const plugins = n < Number(count) ? harnessHmr({ entry: 'harness.ts' }) : []
  const server = { middlewareMode: true, ws: false, watch: null }
  await createServer({ root: process.cwd(), configFile: false, logLevel: 'silent', plugins, server })
  const harness = plugins[0]?.api[Symbol.for('harness-hmr.harness')]
  if (harness) await new Promise(ready => harness.listen({ ready }))
}
const listen = event => process.on(event, (error, origin) => console.log(event, String(error), String(origin)))
const fail = {
  thrown: () => { throw new Error('outside') },
  typed: () => { new URL('nothing') },
  value: () => { throw 'outside' },
  rejected: () => void Promise.reject(new Error('outside')),
  rejectedValue: () => void Promise.reject('outside'),
  handledLate: () => { const late = Promise.reject(new Error('outside')); setTimeout(() => late.catch(() => {}), 20) }
}
const hear = {
  exceptions: () => listen('uncaughtException'),
  rejections: () => listen('unhandledRejection'),
  handled: () => listen('rejectionHandled'),
  monitor: () => listen('uncaughtExceptionMonitor'),
  capture: () => process.setUncaughtExceptionCaptureCallback(error => console.log('captured', String(error)))
}
process.on('exit', code => console.log('exit', code))
for (const name of failures) name in hear ? hear[name]() : setTimeout(fail[name])
setTimeout(() => { console.log('lives'); process.exit() }, 100)
`

/** How a process ends in which something fails beside so many harnesses. */
async function endOf(count: number, mode: string, failures: string[]) {
  const root = createFolder({
    'harness.ts': composing('./agents.ts'),
    'agents.ts': service('agents'),
    'world.mjs': WORLD
  })
  const args = [`--unhandled-rejections=${mode}`, 'world.mjs', folder, String(count), ...failures]
  const { code, signal, stdout, stderr } = await run(args, root).ended
  // Of Node's own frames it is up to chance which there are: the tick comes after a timer, or by itself.
  const anonymous = (text: string) =>
    text
      .replaceAll(root, '<root>')
      .replace(/\n +at [^\n]*\(node:internal[^\n]*?\)(?= \{|\n)/g, '')
      .replace(/(node:|rejection id: )\d+\)/g, '$1)')
  return { code, signal, stdout: anonymous(stdout), stderr: anonymous(stderr) }
}

describe('an error outside of two harnesses ends the process, or does not, as it would without them', () => {
  test.for([
    ['throw', 'thrown'],
    ['throw', 'typed'],
    ['throw', 'value'],
    ['throw', 'rejected'],
    ['throw', 'rejectedValue'],
    ['throw', 'handled handledLate rejected'],
    ['throw', 'monitor exceptions thrown rejected rejectedValue'],
    ['throw', 'rejections rejected rejectedValue'],
    ['throw', 'monitor capture thrown rejected'],
    ['strict', 'rejected'],
    ['strict', 'exceptions rejections rejected rejectedValue'],
    ['warn', 'rejected rejectedValue'],
    ['warn', 'rejections handled handledLate'],
    ['none', 'rejected rejectedValue'],
    ['warn-with-error-code', 'rejected rejectedValue']
  ] as const)('%s: %s', async ([mode, failures]) => {
    const names = failures.split(' ')
    const [plain, ours] = await Promise.all([endOf(0, mode, names), endOf(2, mode, names)])
    expect(ours).toEqual(plain)
    expect(plain.stdout).toContain('exit')
  })
})

/** What the process has to say of errors is said before anybody else hears of it. */
async function boot(files: Record<string, string>): Promise<App> {
  const app = await createApp({ 'harness.ts': composing('./agents.ts'), ...files })
  await app.next('ready')
  return app
}

describe('an error that the old version lets go of while it closes', () => {
  const closing = (fail: string) => `
    ctx.effect(() => async () => {
      if (version > 1) return
      ${fail}
      await new Promise(resolve => setTimeout(resolve, 300))
    })`

  test.for([
    [
      'as an event one tick later',
      `const socket = new EventEmitter().on('error', () => {})
      socket.removeAllListeners()
      process.nextTick(() => socket.emit('error', new Error('closed while it connects')))`,
      'uncaught in agents 1: closed while it connects'
    ],
    [
      'with no frame but those of Node',
      `const socket = connect(9, '127.0.0.1').on('error', () => {})
      socket.removeAllListeners()`,
      'uncaught: connect ECONNREFUSED 127.0.0.1:9'
    ],
    ['as a floating rejection', `void Promise.reject(new Error('floating'))`, 'uncaught in agents 1: floating'],
    ['as a rejection without a stack', `void Promise.reject('no stack')`, 'uncaught: no stack']
  ] as const)('%s is in the failures of that reload, and the process lives', async ([, fail, failure]) => {
    const head = `import { EventEmitter } from 'node:events'\nimport { connect } from 'node:net'`
    const app = await boot({ 'agents.ts': service('agents', closing(fail), head) })
    expect(await app.edit('agents.ts', bump)).toMatchObject({ outcome: 'reloaded', failures: [failure] })
    expect(await app.edit('agents.ts', bump)).toMatchObject({ outcome: 'reloaded', failures: [] })
  })

  test('since its peer has reset a socket is in the failures of that reload', async () => {
    const server = createServer(socket => void gate('drain').promise.then(() => socket.resetAndDestroy()))
    onTestFinished(() => void server.close())
    await once(server.listen(0, '127.0.0.1'), 'listening')
    const body = `
      if (version > 1) return
      connect(${(server.address() as AddressInfo).port}, '127.0.0.1', () => gate('up').resolve())
      const reset = new Promise(done => process.once('uncaughtExceptionMonitor', done))
      ctx.effect(() => () => { gate('drain').resolve(); return reset })`
    const app = await boot({ 'agents.ts': service('agents', body, `import { connect } from 'node:net'`) })
    await gate('up').promise
    const { outcome, failures } = await app.edit('agents.ts', bump)
    expect(outcome).toBe('reloaded')
    expect(failures).toContain('uncaught: read ECONNRESET')
  })
})

test('an error that the new version throws from a timer before it fails to start is in the failures of that reload', async () => {
  const agents = `export const version = 1
    export const name = 'agents'
    export async function apply() {
      if (version === 1) return
      setTimeout(() => { throw new Error('from a timer') })
      await new Promise(done => process.once('uncaughtExceptionMonitor', done))
      throw new Error('no start')
    }`
  const app = await boot({
    'harness.ts': `import * as agents from './agents.ts'\nexport default (ctx: any) => void ctx.plugin(agents)`,
    'agents.ts': agents
  })
  const { outcome, error, failures } = await app.edit('agents.ts', bump)
  expect(outcome).toBe('rolled-back')
  expect(error!.message).toContain('no start')
  expect(failures).toEqual(['uncaught in agents 2: from a timer'])
})

describe('an error of what was replaced', () => {
  const late = service(
    'agents',
    `if (version === 1) void gate('late').promise.then(() => { throw new Error('too late') })`
  )

  test('names both generations, the one that ran and the one that serves', async () => {
    const app = await boot({ 'agents.ts': late })
    await app.edit('agents.ts', bump)
    await app.edit('agents.ts', bump)
    gate('late').resolve()
    const { message, location } = await app.next('error')
    expect(message).toBe('agents 1 was replaced by agents 3 and still runs: too late')
    expect(location).toMatchObject({ file: `${app.root}/agents.ts` })
  })

  test('that called living code is told, and one of a version that did not come live says so', async () => {
    const helper = `export const fails = () => { throw new Error('in a helper') }`
    const body = `if (version < 3) void gate('call ' + version).promise.then(() => fails())
      if (version === 2) throw new Error('no start')`
    const app = await boot({
      'agents.ts': service('agents', body, `import { fails } from './helper.ts'`),
      'helper.ts': helper
    })
    expect((await app.edit('agents.ts', bump)).outcome).toBe('rolled-back')
    gate('call 2').resolve()
    expect((await app.next('error')).message).toBe('agents 2 was replaced by agents 3 and still runs: in a helper')
  })

  test('is told by its own harness alone, and no listener comes or goes on `process`', async () => {
    const before = EVENTS.map(event => process.listenerCount(event))
    const { emit } = process
    const [first, second] = [await boot({ 'agents.ts': late }), await boot({ 'agents.ts': late })]
    const told: string[] = []
    for (const [n, { harness }] of [first, second].entries())
      harness.listen({ error: ({ message }) => void told.push(`${n} ${message}`) })
    expect(EVENTS.map(event => process.listenerCount(event))).toEqual(before)
    await second.edit('agents.ts', bump)
    gate('late').resolve()
    await second.next('error')
    expect(told).toEqual(['1 agents 1 was replaced by agents 2 and still runs: too late'])
    await first.close()
    expect(process.emit).not.toBe(emit)
    await second.close()
    expect(process.emit).toBe(emit)
  })
})

const EVENTS = ['uncaughtException', 'unhandledRejection'] as const
