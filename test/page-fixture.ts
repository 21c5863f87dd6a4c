/** A small harness whose agents keep boundaries open, for the tests of the live page. */
import { once } from 'node:events'
import type { Page } from 'playwright-core'
import { onTestFinished } from 'vitest'
import { WebSocket as RawSocket } from 'ws'
import { type App, createApp } from './app.ts'
import { openPage } from './browser.ts'
import { promptly } from './promptly.ts'
export { bump } from './field-fixture.ts'

export const files = {
  'harness.ts': `
    import Agents from './agents.ts'
    import { Tools } from './tools.ts'
    export default function harness(ctx: any) {
      ctx.plugin(Agents)
      ctx.plugin(Tools)
    }`,
  'agents.ts': `
    import { Service } from 'cordis'
    import { BoundaryScope } from 'harness-hmr/scope'
    export const version = 1
    export default class Agents extends Service {
      scope = new BoundaryScope<{ id: string }>({ name: 'agents', label: agent => agent.id })
      constructor(ctx: any) {
        super(ctx, 'agents')
        ctx.effect(() => () => this.scope.dispose())
      }
      work(id: string, until: Promise<unknown>) {
        return this.scope.run({ id }, () => until)
      }
    }`,
  'tools.ts': `
    import { Service } from 'cordis'
    export const version = 1
    export class Tools extends Service {
      static inject = ['agents']
      constructor(ctx: any) { super(ctx, 'tools') }
    }`
}

/** The address of the live page of an app. */
export function pageOf({ server }: App): string {
  return new URL('__harness/', server.resolvedUrls!.local[0]).href
}

/** An app that runs, and its page, live. */
export async function openHarness(
  options: Parameters<typeof createApp>[1] = {},
  more: Record<string, string> = {},
  context: Parameters<typeof openPage>[1] = {}
): Promise<{ app: App; page: Page }> {
  const app = await createApp({ ...files, ...more }, options)
  await app.next('ready')
  const page = await openPage(pageOf(app), context)
  await page.locator('.connection.live').waitFor()
  return { app, page }
}

/** A raw client of Vite's WebSocket, as a page of this origin would be one; with another token and origin when given. */
export async function connect(app: App, { token, origin }: { token?: string; origin?: string } = {}) {
  const { host } = new URL(pageOf(app))
  const query = token === undefined ? '' : `?token=${token}`
  const socket = new RawSocket(`ws://${host}/${query}`, 'vite-hmr', { origin })
  onTestFinished(() => socket.terminate())
  const messages: { event: string; data: unknown }[] = []
  const waiting = new Map<string, (data: unknown) => void>()
  socket.on('message', raw => {
    const { event, data } = JSON.parse((raw as Buffer).toString()) as { event: string; data: unknown }
    if (!event) return
    messages.push({ event, data })
    waiting.get(event)?.(data)
    waiting.delete(event)
  })
  const send = (event: string, data: unknown = {}) => socket.send(JSON.stringify({ type: 'custom', event, data }))
  const next = <T>(event: string) =>
    promptly(new Promise<T>(resolve => waiting.set(event, resolve as (data: unknown) => void)), event, 15_000)
  const opened = once(socket, 'open')
  return { socket, messages, send, next, opened }
}
