/** A small harness whose agents keep boundaries open, for the tests of the live page. */
import type { Page } from 'playwright-core'
import { type App, createApp } from './app.ts'
import { openPage } from './browser.ts'
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
