/** The playground's page in a real browser, on the dev server of a copy of the repository. */
import { createHash } from 'node:crypto'
import { existsSync, readdirSync, readFileSync } from 'node:fs'
import { join, sep } from 'node:path'
import { fileURLToPath } from 'node:url'
import type { Page } from 'playwright-core'
import type { Context } from 'cordis'
import { createServer, type Plugin, type ViteDevServer } from 'vite'
import { onTestFinished } from 'vitest'
import type { SessionEvent } from '../../playground/providers/sessions.ts'
import type { Api } from '../../plugin/index.ts'
import { openPage } from '../fixtures/browser.ts'
import { Copy } from '../fixtures/dev-server.ts'
import { turn } from '../promptly.ts'
import { harnessOf } from '../../plugin/vite/api.ts'
import { anyPort } from '../fixtures/port.ts'

const repository = fileURLToPath(new URL('../..', import.meta.url))

/** How long the machine may take for what takes no time. */
export const PATIENCE = 30_000

/** A running playground, whose agents nobody talks to but the test. */
export class Playground {
  readonly copy: Copy
  server!: ViteDevServer
  page!: Page

  constructor(change: (copy: Copy) => void = () => {}) {
    this.copy = new Copy()
    const config = 'agents: { ada: [], bo: [] }, visits: 0, latency: 10, log: false,'
    this.copy.edit('vite.config.ts', source => source.replace('sessionsDir:', `${config} sessionsDir:`))
    change(this.copy)
  }

  get url(): string {
    return this.server.resolvedUrls!.local[0]!
  }

  /** Starts the server and opens the page, on which the agents are. */
  async open(options: Parameters<typeof openPage>[1] = {}): Promise<this> {
    await this.serve(options)
    await this.agent('ada').waitFor()
    return this
  }

  /** The same, whatever the page shows. */
  async serve(options: Parameters<typeof openPage>[1] = {}): Promise<this> {
    const { root } = this.copy
    this.server = await createServer({
      configFile: join(root, 'vite.config.ts'),
      logLevel: 'silent',
      server: { port: anyPort(), host: '127.0.0.1', fs: { allow: [root, repository] } }
    })
    onTestFinished(() => this.server.close())
    await this.server.listen()
    this.page = await openPage(this.url, options)
    this.page.setDefaultTimeout(PATIENCE)
    return this
  }

  /** One agent's part of the page. */
  agent(id: string) {
    return this.page.locator(`[data-agent="${id}"]`)
  }

  /** What is shown of one kind in an agent's conversation. */
  entries(agent: string, kind: string) {
    return this.agent(agent).locator(`[data-kind="${kind}"]`)
  }

  /** What is shown in an agent's conversation, in its order. */
  async kinds(agent: string): Promise<(string | null)[]> {
    const entries = await this.agent(agent).locator('[data-kind]').all()
    return Promise.all(entries.map(entry => entry.getAttribute('data-kind')))
  }

  /** A ready-made edit. */
  edit(id: string) {
    return this.page.locator(`[data-edit="${id}"]`)
  }

  /** Prompts an agent with the keyboard. */
  async ask(agent: string, text: string): Promise<void> {
    await this.page.getByLabel(`Prompt for ${agent}`).fill(text)
    await this.page.getByLabel(`Prompt for ${agent}`).press('Enter')
  }

  /** The text of an answer, as soon as it is shown in full. */
  async answer(agent: string, containing: string): Promise<string> {
    const entry = this.entries(agent, 'answer').filter({ hasText: containing })
    await entry.waitFor()
    return entry.innerText()
  }

  /** Makes a ready-made edit, and waits for what is shown to come of it. */
  async make(id: string, outcome: string): Promise<void> {
    await this.edit(id).getByRole('button', { name: 'Try it' }).click()
    await this.edit(id).locator('.came-of', { hasText: outcome }).waitFor()
  }

  /** What is on record of an agent. */
  session(agent: string): SessionEvent[] {
    const folder = join(this.copy.root, 'playground/.sessions')
    const file = existsSync(folder) && readdirSync(folder).find(name => name === `${agent}.jsonl`)
    if (!file) return []
    return readFileSync(join(folder, file), 'utf8')
      .trimEnd()
      .split('\n')
      .map(line => JSON.parse(line) as SessionEvent)
  }

  /** How many listeners an event has in the harness. */
  listeners(event: string): number {
    const [plugin] = this.server.config.plugins.filter(({ name }) => name === 'harness-hmr') as Plugin<Api>[]
    const { events } = harnessOf(plugin)!.running!.fibers.root as unknown as Context
    return events._hooks[event]?.length ?? 0
  }

  async untilNobodyListens(event: string): Promise<void> {
    while (this.listeners(event) > 0) await turn()
  }

  /** A fingerprint of every file of the playground that is not written by it. */
  files(): Record<string, string> {
    const folder = join(this.copy.root, 'playground')
    const paths = readdirSync(folder, { recursive: true, encoding: 'utf8', withFileTypes: true })
      .filter(entry => entry.isFile())
      .map(entry => join(entry.parentPath, entry.name))
      .filter(path => !path.includes(`${sep}.`))
    return Object.fromEntries(paths.map(path => [path, createHash('sha256').update(readFileSync(path)).digest('hex')]))
  }
}
