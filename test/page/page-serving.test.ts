import { once } from 'node:events'
import { createServer as createHttpServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { describe, expect, onTestFinished, test } from 'vitest'
import { PageChannel } from '../../plugin/page/server/channel.ts'
import { COMMAND, type Delta, DELTA, OPEN, SNAPSHOT, type Snapshot } from '../../plugin/page/server/protocol.ts'
import { createApp, gate } from '../fixtures/app.ts'
import { noBrowser, openPage } from '../fixtures/browser.ts'
import { bump, connect, files, openHarness, pageOf } from '../fixtures/page-fixture.ts'
import { deferred, promptly, turn } from '../promptly.ts'
import { anyPort } from '../fixtures/port.ts'

/** The browser's, in functions that run there: these files are checked without its types. */
declare const document: any

describe('the address of the page', () => {
  test('ends in a slash, to which the form without one leads', async () => {
    const app = await createApp(files)
    await app.next('ready')
    const url = pageOf(app)
    const bare = await fetch(url.slice(0, -1), { redirect: 'manual' })
    expect([bare.status, bare.headers.get('location')]).toEqual([302, '/__harness/'])
    const page = await fetch(url)
    expect(page.status).toBe(200)
    expect(page.headers.get('content-security-policy')).toContain("frame-ancestors 'self'")
    const html = await page.text()
    const [, script] = /src="\.\/([^"]+\.js)"/.exec(html)!
    const served = await fetch(new URL(script!, url))
    expect(served.headers.get('content-type')).toContain('text/javascript')
    const again = await fetch(new URL(script!, url), { headers: { 'if-none-match': served.headers.get('etag')! } })
    expect(again.status).toBe(304)
    expect((await fetch(new URL('../__harness/nothing.js', url))).status).toBe(404)
  })

  test('is printed among those of the server', async () => {
    const app = await createApp(files)
    await app.next('ready')
    app.server.printUrls()
    expect(app.lines.at(-1)).toContain(`Harness: ${pageOf(app)}`)
  })

  test('leaves the page of the app alone, also one whose path begins alike', async () => {
    const app = await createApp({ ...files, 'index.html': '<title>mine</title>', 'public/__harness.txt': 'mine too' })
    await app.next('ready')
    const { origin } = new URL(pageOf(app))
    expect(await (await fetch(origin, { headers: { accept: 'text/html' } })).text()).toContain('mine')
    expect(await (await fetch(`${origin}/__harness.txt`)).text()).toBe('mine too')
  })
})

describe.skipIf(noBrowser)('the page in a browser', () => {
  test('works under a base', async () => {
    const app = await createApp(files, {}, { base: '/some/where/' })
    await app.next('ready')
    expect(pageOf(app)).toMatch(/\/some\/where\/__harness\/$/)
    const page = await openPage(pageOf(app).slice(0, -1))
    await page.locator('.node-name', { hasText: 'agents' }).waitFor()
    expect(page.url()).toBe(pageOf(app))
  })

  test.each(['/', '/mounted/'])('works in middleware mode, mounted at %s', async mount => {
    const parent = createHttpServer()
    onTestFinished(() => void parent.close())
    const app = await createApp(files, {}, { base: mount, server: { middlewareMode: true, ws: { server: parent } } })
    parent.on('request', app.server.middlewares)
    parent.listen(0, '127.0.0.1')
    await once(parent, 'listening')
    const { port } = parent.address() as AddressInfo
    const page = await openPage(`http://127.0.0.1:${port}${mount}__harness`)
    await page.locator('.connection.live').waitFor()
    await page.locator('.node-name', { hasText: 'agents' }).waitFor()
    await page.getByRole('button', { name: 'Reload tools' }).click()
    await page.locator('.reload').waitFor()
    expect(await page.locator('.reload').count()).toBe(1)
  })

  test('says what may be wrong when nothing answers on the WebSocket', async () => {
    const app = await createApp(files, {}, { server: { port: anyPort(), host: '127.0.0.1', ws: false } })
    await app.next('ready')
    const page = await openPage(pageOf(app))
    await page.getByRole('heading', { name: 'No connection to the dev server' }).waitFor()
    await page.getByRole('button', { name: 'Try again' }).waitFor()
    expect(await page.locator('.connection').count()).toBe(0)
  })

  test('is not to be shown in a frame of another site, nor commanded from there', async () => {
    const { app } = await openHarness()
    let reloads = 0
    app.harness.listen({ reload: () => reloads++ })
    const page = await openPage('about:blank')
    // Vite lets other ports of this machine read its client; this is a page from elsewhere.
    const body = `<iframe src="${pageOf(app)}"></iframe>`
    await page.route('http://elsewhere.example/', route => route.fulfill({ contentType: 'text/html', body }))
    await page.goto('http://elsewhere.example/')
    const module = `${app.root}/tools.ts`
    const tried = await page.evaluate(
      async ({ url, event, module }) => {
        const data = { id: 1, do: 'reload', module }
        const message = JSON.stringify({ type: 'custom', event, data })
        const ended = (socket: WebSocket) =>
          new Promise<string>(resolve => {
            socket.addEventListener('open', () => {
              socket.send(message)
              resolve('open')
            })
            socket.addEventListener('error', () => resolve('refused'))
          })
        const address = url.replace('http', 'ws').replace('__harness/', '')
        const post = await fetch(url, { method: 'POST', mode: 'no-cors', body: message }).then(
          ({ type }) => type,
          () => 'failed'
        )
        const client = await new Promise<string>(resolve => {
          const src = new URL('../@vite/client', url).href
          const script = Object.assign(document.createElement('script'), { type: 'module', src })
          script.addEventListener('load', () => resolve('loaded'))
          script.addEventListener('error', () => resolve('refused'))
          document.head.append(script)
        })
        return {
          post,
          client,
          bare: await ended(new WebSocket(address, 'vite-hmr')),
          guessed: await ended(new WebSocket(`${address}?token=guessed`, 'vite-hmr')),
          frame: document.querySelector('iframe').contentDocument === null
        }
      },
      { url: pageOf(app), event: COMMAND, module }
    )
    expect(tried).toMatchObject({ client: 'refused', bare: 'refused', guessed: 'refused', frame: true })
    const [, frame] = page.frames()
    expect(await frame!.locator('.connection').count()).toBe(0)
    await app.harness.idle()
    expect(reloads).toBe(0)
  })
})

describe('commands', () => {
  test('need the token of the server, whoever asks', async () => {
    const app = await createApp(files)
    await app.next('ready')
    const { origin } = new URL(pageOf(app))
    for (const token of ['', 'wrong', `${app.server.config.webSocketToken}x`]) {
      const { opened } = await connect(app, { token, origin })
      await expect(opened).rejects.toThrow('400')
    }
    const { opened } = await connect(app, { token: app.server.config.webSocketToken, origin })
    await opened
  })

  test('are not heard over HTTP, nor from a client that has not opened the page', async () => {
    const app = await createApp(files)
    await app.next('ready')
    let reloads = 0
    app.harness.listen({ reload: () => reloads++ })
    const data = { id: 1, do: 'reload', module: `${app.root}/tools.ts` }
    for (const method of ['POST', 'PUT', 'DELETE']) {
      const body = JSON.stringify({ type: 'custom', event: COMMAND, data })
      await fetch(pageOf(app), { method, body, headers: { 'content-type': 'application/json' } })
    }
    const { opened, send, next, messages } = await connect(app)
    await opened
    send(COMMAND, data)
    send(OPEN)
    await next(SNAPSHOT)
    await app.harness.idle()
    expect(reloads).toBe(0)
    expect(messages.map(({ event }) => event)).toEqual([SNAPSHOT])
  })

  test.each([
    [{ do: 'reload', module: '/etc/passwd' }, 'the module does not run'],
    [{ do: 'reload' }, 'the module does not run'],
    [{ do: 'abandon' }, 'no reload waits'],
    [{ do: 'constructor' }, 'there is no command "constructor"'],
    [null, 'there is no command "undefined"']
  ])('that make no sense are answered: %j', async (command, error) => {
    const app = await createApp(files)
    await app.next('ready')
    const { opened, send, next } = await connect(app)
    await opened
    send(OPEN)
    await next(SNAPSHOT)
    send(COMMAND, command && { ...command, id: 7 })
    expect(await next('harness-hmr:answer')).toEqual({ error, ...(command && { id: 7 }) })
  })
})

describe('the transport', () => {
  test('sends a snapshot first, and then only what has changed', async () => {
    const app = await createApp(files)
    await app.next('ready')
    const { opened, send, next } = await connect(app)
    await opened
    send(OPEN)
    const snapshot = await next<Snapshot>(SNAPSHOT)
    expect(snapshot).toMatchObject({
      root: app.root,
      harness: { state: 'running', failed: null },
      boundaries: { total: 0, oldest: [] },
      reloads: [],
      fibers: [
        { name: 'harness', children: [{ name: 'agents', generation: 1, states: { active: 1 } }, { name: 'tools' }] }
      ]
    })
    const delta = next<{ parts: object; lists: object }>(DELTA)
    void app.service('agents')['work']('ada', gate('held').promise)
    onTestFinished(() => gate('held').resolve())
    // The first sample may come before.
    let { parts } = await delta
    while (!('boundaries' in parts)) ({ parts } = await next<{ parts: object }>(DELTA))
    expect(parts).toMatchObject({ boundaries: { total: 1, oldest: [{ label: 'ada', name: 'agents', generation: 1 }] } })
    expect(Object.keys(parts).toSorted()).toEqual(['boundaries', 'storages'])
  })

  test('counts thousands of boundaries, and lists the oldest of them', async () => {
    const app = await createApp(files)
    await app.next('ready')
    for (let i = 0; i < 5000; i++) void app.service('agents')['work'](`agent ${i}`, gate('held').promise)
    onTestFinished(() => gate('held').resolve())
    const { opened, send, next } = await connect(app)
    await opened
    send(OPEN)
    const { boundaries } = await next<Snapshot>(SNAPSHOT)
    expect(boundaries.total).toBe(5000)
    expect(boundaries.oldest.map(({ label }) => label)).toEqual(Array.from({ length: 200 }, (_, i) => `agent ${i}`))
    expect(new Set(boundaries.oldest.map(({ key }) => key)).size).toBe(200)
  })

  test('listens to nothing and measures nothing while no page is open', async () => {
    const app = await createApp(files, { audit: false })
    await app.next('ready')
    const sent: string[] = []
    const sampled = deferred()
    const client = {
      send(event: string, { lists }: Partial<Delta>) {
        sent.push(event)
        if (lists?.samples?.some(({ reload }) => reload === 2)) sampled.resolve()
      }
    } as never
    const heard = new Map<string, (data: unknown, client: never) => unknown>()
    const socket = { on: (event: string, listener: never) => heard.set(event, listener), off: () => {} } as never
    const listening = new Set<object>()
    const listened = app.harness.listen.bind(app.harness)
    app.harness.listen = listener => {
      listening.add(listener)
      const stop = listened(listener)
      return () => {
        listening.delete(listener)
        return stop()
      }
    }
    let looks = 0
    const { host } = app.harness.running!
    const modules = host.modules.bind(host)
    host.modules = () => (looks++, modules())
    const channel = new PageChannel(socket, app.harness, app.root)
    await app.edit('tools.ts', bump)
    await turn()
    expect([listening.size, looks, sent]).toEqual([0, 0, []])
    heard.get(OPEN)!({}, client)
    expect([listening.size, channel.size, sent]).toEqual([1, 1, [SNAPSHOT]])
    await app.edit('tools.ts', bump)
    await promptly(sampled.promise, 'a sample')
    expect(looks).toBeGreaterThan(1)
    heard.get('vite:client:disconnect')!(undefined, client)
    expect([listening.size, channel.size]).toEqual([0, 0])
    looks = sent.length = 0
    // Longer than any of its timers: what is left of them would look and send now.
    await new Promise(resolve => setTimeout(resolve, 1300))
    expect([looks, sent]).toEqual([0, []])
    channel.close()
  })
})
