/**
 * What somebody tries who is not the owner of the harness: from another site in the owner's browser, from another machine,
 * with the token or without. Each row is one try, and says what got through: nothing.
 */
import { once } from 'node:events'
import { type IncomingMessage, request } from 'node:http'
import { connect as connectTcp } from 'node:net'
import { networkInterfaces } from 'node:os'
import { describe, expect, onTestFinished, test } from 'vitest'
import { WebSocket } from 'ws'
import { ANSWER, COMMAND, OPEN, SNAPSHOT, type Answer } from '../../plugin/page/server/protocol.ts'
import { type App, createApp } from '../fixtures/app.ts'
import { bump, files, pageOf } from '../fixtures/page-fixture.ts'
import { promptly } from '../promptly.ts'

const ELSEWHERE = ['http://elsewhere.example', 'http://localhost:1', 'http://127.0.0.1:1', 'null', 'file://']
/** An address of this machine that other machines may have it by. */
const outer = Object.values(networkInterfaces())
  .flat()
  .find(entry => entry?.family === 'IPv4' && !entry.internal)?.address

/** A harness that hears what pages say, and notes it. */
const heard: string[] = []
const world = {
  ...files,
  'tools.ts': `${files['tools.ts']}
    export class Ear {
      constructor(ctx: any) {
        const { browsers } = ctx.harnessHmr
        ctx.effect(() => browsers.on('say', (data: any, page: any) => (globalThis as any).__heard(data, page)))
        ctx.effect(() => browsers.on('look', (data: any, page: any) => page.send('seen', page.mayAct), { guests: true }))
      }
    }`,
  'harness.ts': files['harness.ts']
    .replace('{ Tools }', '{ Ear, Tools }')
    .replace('ctx.plugin(Tools)', 'ctx.plugin(Tools)\n      ctx.plugin(Ear)')
}

/** A dev server whose owner has opened it as far as Vite lets him. */
async function open(options: Parameters<typeof createApp>[1] = {}, host = '127.0.0.1') {
  heard.length = 0
  Object.assign(globalThis, { __heard: (data: string) => heard.push(data) })
  const app = await createApp(world, options, {
    server: { host, port: 20_000 + Math.floor(Math.random() * 12_000), cors: true }
  })
  await app.next('ready')
  const reloads: unknown[] = []
  app.harness.listen({ reload: report => reloads.push(report) })
  return { app, reloads, port: Number(new URL(pageOf(app)).port), token: app.server.config.webSocketToken }
}

interface Try {
  port: number
  path?: string
  method?: string
  headers?: Record<string, string>
  body?: string
}

/** A request whose path goes over the wire as it is. */
async function ask({ port, path = '/__harness/', method = 'GET', headers = {}, body }: Try) {
  const asked = request({ host: '127.0.0.1', port, path, method, headers: { accept: '*/*', ...headers } })
  asked.end(body)
  const [response] = (await promptly(once(asked, 'response'), `${method} ${path}`)) as [IncomingMessage]
  const text = (await response.setEncoding('utf8').toArray()).join('')
  return { status: response.statusCode!, headers: response.headers, text }
}

/** A WebSocket, and what came of it: whether it opened, and the events that it got until it answered or was closed. */
class Client {
  readonly events: { event: string; data: unknown }[] = []
  readonly socket: WebSocket
  #changed = () => {}

  constructor(
    port: number,
    {
      host = '127.0.0.1',
      token,
      ...options
    }: { host?: string; token?: string; origin?: string; headers?: Record<string, string> } = {}
  ) {
    this.socket = new WebSocket(
      `ws://${host}:${port}/${token === undefined ? '' : `?token=${token}`}`,
      'vite-hmr',
      options
    )
    onTestFinished(() => this.socket.terminate())
    this.socket.on('message', raw => {
      this.events.push(JSON.parse(String(raw)))
      this.#changed()
    })
  }

  isOpen(): Promise<boolean> {
    return promptly(
      new Promise<boolean>(resolve => {
        this.socket.on('open', () => resolve(true))
        this.socket.on('error', () => resolve(false))
      }),
      'a handshake'
    )
  }

  say(event: string, data?: unknown): void {
    this.socket.send(JSON.stringify({ type: 'custom', event, data }))
  }

  async next<T>(event: string, is: (data: T) => boolean = () => true): Promise<T> {
    const find = () => this.events.find(other => other.event === event && is(other.data as T))
    await promptly(
      new Promise<void>(resolve => ((this.#changed = () => find() && resolve()), this.#changed())),
      event,
      15_000
    )
    return find()!.data as T
  }

  #ids = 0

  async command(command: object): Promise<Answer> {
    const id = ++this.#ids
    this.say(COMMAND, { ...command, id })
    return this.next<Answer>(ANSWER, answer => answer.id === id)
  }

  /** Whether the server answers what comes after all that was sent. */
  async looks(): Promise<unknown> {
    this.say('look')
    return this.next('seen')
  }
}

/** A page of the owner's. */
async function owner(app: App, port: number): Promise<Client> {
  const client = new Client(port, { origin: `http://127.0.0.1:${port}`, token: app.server.config.webSocketToken })
  await client.isOpen()
  client.say(OPEN)
  await client.next(SNAPSHOT)
  return client
}

/** Tries each row; names those that got through. */
async function tryAll<T>(
  rows: readonly T[],
  gotThrough: (row: T) => Promise<unknown>
): Promise<{ tried: number; through: T[] }> {
  const through: T[] = []
  for (const row of rows) if (await gotThrough(row)) through.push(row)
  return { tried: rows.length, through }
}

const COMMANDS = (root: string) => [
  { do: 'reload', module: `${root}/tools.ts` },
  { do: 'reload', module: `${root}/harness.ts` },
  { do: 'audit' },
  { do: 'why' },
  { do: 'settle' },
  { do: 'abandon' }
]

describe('from another site in the browser of the owner, whatever `server.cors` says', () => {
  test('a name that leads to this machine reaches nothing (Host rebinding)', async () => {
    const { port } = await open()
    const rows = ['/', '/__harness/', '/__harness/index.html', '/@vite/client', '/tools.ts'].map(path => ({ path }))
    const tried = await tryAll(rows, async ({ path }) => {
      const { status } = await ask({ port, path, headers: { host: 'rebound.example' } })
      return status < 400
    })
    const sockets = await tryAll(ELSEWHERE, async origin =>
      new Client(port, { origin, headers: { host: 'rebound.example' } }).isOpen()
    )
    expect(tried).toEqual({ tried: 5, through: [] })
    expect(sockets).toEqual({ tried: 5, through: [] })
  })

  test('nothing of ours is read', async () => {
    const { app, port } = await open()
    const html = (await ask({ port })).text
    const [, script] = /src="\.\/([^"]+\.js)"/.exec(html)!
    const paths = ['/__harness', '/__harness/', '/__harness/index.html', `/__harness/${script}`]
    const rows = paths.flatMap(path => ELSEWHERE.map(origin => ({ path, origin })))
    expect(
      await tryAll(rows, async ({ path, origin }) => {
        const { status, headers } = await ask({ port, path, headers: { origin } })
        return status < 400 || headers['access-control-allow-origin'] !== undefined
      })
    ).toEqual({ tried: 20, through: [] })
    for (const path of [...paths, '/__harness/none']) {
      const { headers } = await ask({ port, path })
      expect(headers['content-security-policy']).toContain("frame-ancestors 'self'")
      expect(headers['cross-origin-resource-policy']).toBe('same-origin')
    }
    expect(app.harness.state).toBe('running')
  })

  test('nothing is commanded by a form, a link or an image', async () => {
    const { app, port, reloads } = await open()
    const module = `${app.root}/tools.ts`
    const body = JSON.stringify({ type: 'custom', event: COMMAND, data: { id: 1, do: 'reload', module } })
    const query = `?event=${COMMAND}&do=reload&module=${encodeURIComponent(module)}`
    const methods = ['GET', 'POST', 'PUT', 'PATCH', 'DELETE', 'OPTIONS']
    const types = ['text/plain', 'application/x-www-form-urlencoded', 'application/json']
    const rows = methods.flatMap(method => types.map(type => ({ method, type })))
    await tryAll(rows, ({ method, type }) => {
      const headers = { origin: ELSEWHERE[0]!, 'content-type': type }
      return ask({ port, path: `/__harness/${query}`, method, headers, body: method === 'GET' ? undefined : body })
    })
    await app.harness.settle()
    expect({ tried: rows.length, reloads }).toEqual({ tried: 18, reloads: [] })
  })

  test('no handshake is of use, not even with the token', async () => {
    const { app, port, token, reloads } = await open()
    const rows = ELSEWHERE.flatMap(origin =>
      [undefined, '', 'guessed', `${token}x`, token].map(token => ({ origin, token }))
    )
    const tried = await tryAll(rows, async row => {
      const client = new Client(port, row)
      if (!(await client.isOpen())) return false
      client.say(OPEN)
      for (const command of COMMANDS(app.root)) client.say(COMMAND, { ...command, id: 1 })
      client.say('say', 'psst')
      client.say('look')
      // All of it was read when this is answered: a ping comes after it.
      client.socket.ping()
      await promptly(once(client.socket, 'pong'), 'pong')
      await app.harness.settle()
      return client.events.some(({ event }) => event?.startsWith('harness-hmr:') || event === 'seen')
    })
    expect(tried).toEqual({ tried: 25, through: [] })
    expect([heard, reloads]).toEqual([[], []])
  })
})

describe('from this machine', () => {
  test('no path leads out of the files of the page', async () => {
    const { port } = await open()
    const index = (await ask({ port })).text
    const ups = ['..', '%2e%2e', '.%2e', '..%2f..', '..%5c..', '%2e%2e%2f', '....//', '..;', '..%00', '%252e%252e']
    const ends = ['package.json', 'assets.ts', 'harness.ts', 'etc/passwd']
    const paths = ups.flatMap(up => ends.map(end => `/__harness/${up}/${end}`))
    paths.push(
      '/__harness//etc/passwd',
      '/__harness/__proto__',
      '/__harness/constructor',
      '/__harness/\\..\\package.json'
    )
    const tried = await tryAll(paths, async path => {
      const { status, text } = await ask({ port, path })
      return status === 200 && text !== index
    })
    expect(tried).toEqual({ tried: 44, through: [] })
  })

  test('frames and messages that make no sense are survived', async () => {
    const { app, port } = await open()
    const custom = (event: unknown, data: unknown) => JSON.stringify({ type: 'custom', event, data })
    const messages: (string | Buffer)[] = [
      '',
      '{',
      'null',
      '[]',
      '1',
      '"x"',
      '{}',
      '{"type":"custom"}',
      '{"type":"nothing"}',
      '\u0000',
      Buffer.from([0, 255, 254, 128]),
      '['.repeat(100_000),
      custom(COMMAND, 'x'.repeat(1_000_000)),
      ...['__proto__', 'constructor', 1, {}, [], true].map(event => custom(event, {})),
      ...[OPEN, COMMAND, 'vite:client:disconnect', 'vite:client:connect'].flatMap(event =>
        [null, 1, 'x', [], {}, { id: {} }, { id: 1, do: 1 }, { id: 1, do: { toString: 1 } }].map(data =>
          custom(event, data)
        )
      )
    ]
    // Bits that are reserved, an operation that there is not, a length that is not true, a control frame that is too long.
    const frames = [
      'f181',
      'ffffffffffffffffffff',
      '838000000000',
      '89fe0fff00000000',
      '81ff7fffffffffffffff00000000',
      ''
    ]
    const survived = await tryAll(
      [...messages.map(message => ({ message })), ...frames.map(frame => ({ frame }))],
      async row => {
        const client = await owner(app, port)
        if ('message' in row) client.socket.send(row.message)
        else
          (client.socket as unknown as { _socket: NodeJS.WritableStream })._socket.write(Buffer.from(row.frame, 'hex'))
        client.socket.on('error', () => {})
        const other = await owner(app, port)
        const { error } = await other.command({ do: 'settle' })
        client.socket.terminate()
        other.socket.terminate()
        return error !== undefined
      }
    )
    expect(survived).toMatchObject({ through: [] })
    expect(survived.tried).toBe(57)
  }, 60_000)

  test('half a handshake does not hold the server', async () => {
    const { app, port } = await open()
    const sockets = Array.from({ length: 50 }, () => connectTcp(port, '127.0.0.1'))
    onTestFinished(() => sockets.forEach(socket => socket.destroy()))
    await Promise.all(sockets.map(socket => once(socket, 'connect')))
    for (const socket of sockets) socket.write('GET / HTTP/1.1\r\nUpgrade: websocket\r\n')
    expect(await (await owner(app, port)).command({ do: 'settle' })).toMatchObject({ message: 'settled' })
  })

  test('commands about what there is not are refused', async () => {
    const { app, port, reloads } = await open()
    const odd = [
      undefined,
      null,
      1,
      {},
      [],
      '',
      '/etc/passwd',
      '__proto__',
      `${app.root}/../x.ts`,
      `${app.root}/none.ts`
    ]
    const rows = [
      ...odd.map(module => ({ do: 'reload', module })),
      ...odd.slice(1).map(module => ({ do: 'why', module, generation: 1 })),
      ...[null, 1.5, -1, '1', 'NaN', {}].map(generation => ({ do: 'why', module: `${app.root}/tools.ts`, generation })),
      ...['', 'eval', '__proto__', 'constructor', 'toString', 1, {}, [], null, undefined].map(name => ({ do: name }))
    ]
    const tried = await tryAll(rows, async row => {
      // A page each: one may send so many in a second.
      const client = await owner(app, port)
      const { error } = await client.command(row)
      client.socket.terminate()
      return error === undefined
    })
    expect(tried).toEqual({ tried: 35, through: [] })
    expect(reloads).toEqual([])
  })

  test('a flood of 830 messages keeps no other request waiting', async () => {
    const { app, port } = await open()
    await app.edit('tools.ts', bump)
    await ask({ port })
    const module = `${app.root}/tools.ts`
    const floods: Record<string, [event: string, data: object]> = {
      open: [OPEN, {}],
      reload: [COMMAND, { do: 'reload', module, id: 1 }],
      why: [COMMAND, { do: 'why', module, generation: 1, id: 1 }],
      audit: [COMMAND, { do: 'audit', id: 1 }],
      settle: [COMMAND, { do: 'settle', id: 1 }],
      abandon: [COMMAND, { do: 'abandon', id: 1 }],
      nonsense: [COMMAND, { do: 'x', id: 1 }]
    }
    /** The longest that another request waits while so many messages are read. */
    const waitedFor = async (messages: number, [event, data]: (typeof floods)[string]) => {
      const client = await owner(app, port)
      for (let i = 0; i < messages; i++) client.say(event, data)
      let longest = 0
      for (let i = 0; i < 20; i++) {
        const began = performance.now()
        await ask({ port })
        longest = Math.max(longest, performance.now() - began)
      }
      client.socket.terminate()
      await app.harness.settle()
      await app.harness.audit()
      return longest
    }
    for (const [name, flood] of Object.entries(floods)) {
      let cost = Infinity
      // The least of some tries: what else runs on the machine only adds to it. One reload has an audit, which is not the flood's.
      for (let round = 0; round < 3 && cost >= 200; round++)
        cost = Math.min(cost, (await waitedFor(830, flood)) - (await waitedFor(1, flood)))
      expect(cost, name).toBeLessThan(200)
    }
  }, 60_000)
})

describe.skipIf(outer === undefined)('from another machine, with `--host`', () => {
  test('a page looks on, and nothing that it commands or says is done', async () => {
    const { app, port, reloads, token } = await open({}, '0.0.0.0')
    expect(app.lines.filter(line => line.includes('other machines reach'))).toEqual([
      expect.stringContaining('They command nothing')
    ])
    const host = outer!
    // With an origin and the token that a page there has, and without, as a script.
    const ways = [{ host }, { host, token, origin: `http://${host}:${port}` }]
    const rows = ways.flatMap(way => COMMANDS(app.root).map(command => ({ way, command })))
    const tried = await tryAll(rows, async ({ way, command }) => {
      const client = new Client(port, way)
      await client.isOpen()
      client.say(OPEN)
      await client.next(SNAPSHOT)
      client.say('say', 'psst')
      expect(await client.looks()).toBe(false)
      const { error } = await client.command(command)
      client.socket.terminate()
      return !error?.startsWith('only this machine')
    })
    await app.harness.settle()
    expect(tried).toEqual({ tried: 12, through: [] })
    expect([heard, reloads]).toEqual([[], []])
    // The owner's own address stays his.
    expect(await (await owner(app, port)).command({ do: 'settle' })).toMatchObject({ message: 'settled' })
  })

  test('a page does what the owner does where he says so, and that is said', async () => {
    const { app, port, token } = await open({ remote: true }, '0.0.0.0')
    expect(app.lines.filter(line => line.includes('other machines reach'))).toEqual([
      expect.stringContaining('to run code here')
    ])
    const client = new Client(port, { host: outer!, token, origin: `http://${outer}:${port}` })
    await client.isOpen()
    client.say(OPEN)
    await client.next(SNAPSHOT)
    client.say('say', 'hello')
    expect(await client.looks()).toBe(true)
    expect(await client.command({ do: 'settle' })).toMatchObject({ message: 'settled' })
    expect(heard).toEqual(['hello'])
  })
})

test('a server that only this machine reaches warns of nobody', async () => {
  const { app } = await open()
  expect(app.lines.filter(line => line.includes('other machines'))).toEqual([])
})
