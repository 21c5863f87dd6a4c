import { once } from 'node:events'
import type { AddressInfo } from 'node:net'
import { expect, onTestFinished, test } from 'vitest'
import { WebSocket } from 'ws'
import { type App, createApp } from '../fixtures/app.ts'
import { promptly } from '../promptly.ts'

const entry = `
  import { Echo } from './echo.ts'
  export default (ctx: any) => void ctx.plugin(Echo)
`
const echo = (listen: string) => `
  export class Echo {
    constructor(ctx: any) {
      const { browsers } = ctx.harnessHmr
      const answer = (data: any, page: any) => {
        if (data === 'throw') throw new Error('no echo today')
        page.send('echo', data)
      }
      ${listen}
    }
  }
`
const tidy = `ctx.effect(() => browsers.on('say', answer))`

/** A page, as far as the server can tell: what has no origin needs no token. */
class TestPage {
  readonly got: unknown[] = []
  private readonly socket: WebSocket
  private changed = () => {}

  constructor({ server }: App) {
    const { port } = server.httpServer!.address() as AddressInfo
    this.socket = new WebSocket(`ws://127.0.0.1:${port}/`, 'vite-hmr')
    onTestFinished(() => this.socket.terminate())
    this.socket.on('message', raw => {
      const { type, data } = JSON.parse(String(raw))
      if (type !== 'custom') return
      this.got.push(data)
      this.changed()
    })
  }

  async open(): Promise<this> {
    await promptly(once(this.socket, 'open'), 'connection')
    return this
  }

  say(data: unknown): void {
    this.socket.send(JSON.stringify({ type: 'custom', event: 'say', data }))
  }

  /** Resolves when this was heard last. */
  async hears(data: unknown): Promise<void> {
    await promptly(
      new Promise<void>(resolve => {
        this.changed = () => this.got.at(-1) === data && resolve()
        this.changed()
      }),
      `hearing ${String(data)}`
    )
  }
}

test('code in the harness answers the page that has said something, and no other', async () => {
  const app = await createApp({ 'harness.ts': entry, 'echo.ts': echo(tidy) })
  await app.next('ready')
  const [page, other] = [await new TestPage(app).open(), await new TestPage(app).open()]
  page.say('hello')
  await page.hears('hello')
  other.say('bye')
  await other.hears('bye')
  expect([page.got, other.got]).toEqual([['hello'], ['bye']])
})

test('a listener that throws is told of, and the harness goes on', async () => {
  const app = await createApp({ 'harness.ts': entry, 'echo.ts': echo(tidy) })
  await app.next('ready')
  const page = await new TestPage(app).open()
  page.say('throw')
  expect(await app.next('error')).toMatchObject({ message: 'no echo today', location: { line: 6 } })
  page.say('hello')
  await page.hears('hello')
})

test('a listener that a retired generation has forgotten is removed and named, and its successor alone answers', async () => {
  const app = await createApp({ 'harness.ts': entry, 'echo.ts': echo(`browsers.on('say', answer)`) })
  await app.next('ready')
  const page = await new TestPage(app).open()
  const report = await app.edit('echo.ts', source => source.replace('no echo today', 'no echo'))
  expect(report.failures).toEqual(['echo.ts 1 has left a listener for "say" of pages; it was removed'])
  page.say('hello')
  await page.hears('hello')
  page.say('bye')
  await page.hears('bye')
  expect(page.got).toEqual(['hello', 'bye'])
})

test('a listener that is removed with its provider is no failure', async () => {
  const app = await createApp({ 'harness.ts': entry, 'echo.ts': echo(tidy) })
  await app.next('ready')
  const report = await app.edit('echo.ts', source => `${source} // again`)
  expect([report.outcome, report.failures]).toEqual(['reloaded', []])
})
