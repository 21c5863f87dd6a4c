/** A harness of a few files in a real Vite dev server, edited on disk, with a signal for everything a test waits for. */
import { once } from 'node:events'
import { mkdirSync, mkdtempSync, readFileSync, realpathSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { stripVTControlCharacters } from 'node:util'
import { createLogger, createServer, type InlineConfig, type Plugin, type ViteDevServer } from 'vite'
import { onTestFinished } from 'vitest'
import type { HarnessEvents } from '../plugin/report/events.ts'
import type { Harness } from '../plugin/harness/harness.ts'
import { harnessHmr, type AuditReport, type Options, type ReloadReport, type ReportError } from '../plugin/index.ts'
import { harnessOf } from '../plugin/vite/api.ts'
import type { SlowDrain } from '../plugin/report/events.ts'
import { deferred, promptly, type Deferred } from './promptly.ts'
import { linkPackages } from './packages.ts'
import { anyPort } from './port.ts'

const repository = fileURLToPath(new URL('..', import.meta.url))

/** Where the modules of an app write down what happens, in order: `seq.push('agents up')`. */
export const seq: string[] = []
const gates = new Map<string, Deferred<void>>()
/** A signal between a test and the modules of its app, by name: `await gate('drain').promise`, `gate('drain').resolve()`. */
export function gate(name: string): Deferred<void> {
  if (!gates.has(name)) gates.set(name, deferred())
  return gates.get(name)!
}
Object.assign(globalThis, { seq, gate })

export interface App {
  root: string
  server: ViteDevServer
  harness: Harness
  /** What was printed. */
  lines: string[]
  /** The next event of a kind that no call has returned yet. */
  next<K extends keyof Events>(kind: K): Promise<Events[K]>
  /** Saves a file and returns the report of the reload that it asks for; fails when nothing would change. */
  edit(file: string, change: string | ((source: string) => string)): Promise<ReloadReport>
  /** Closes the server and removes the folder; done at the end of a test anyway. */
  close(): Promise<void>
  /** Saves a file. */
  write(file: string, source: string): void
  /** After a server restart: waits until the new harness has booted. */
  follow(): Promise<void>
  /** A service of the running harness. */
  service<T = Record<string, any>>(name: string): T
}

const original = Symbol.for('cordis.original')

interface Events {
  ready: { providers: number; failed: string[] }
  failed: ReportError
  reload: ReloadReport
  audit: AuditReport
  slow: SlowDrain
  error: ReportError
}

/** Starts a dev server on a temporary folder with `files`; the entry is `harness.ts`. `prepare` may change the folder first. */
export async function createApp(
  files: Record<string, string>,
  options: Partial<Options> = {},
  config: InlineConfig = {},
  prepare: (root: string) => void = () => {}
): Promise<App> {
  seq.length = 0
  gates.clear()
  const root = createFolder(files)
  prepare(root)
  const lines: string[] = []
  let watching: Promise<unknown> | undefined
  let events!: App['next']
  const watcher: Plugin = {
    name: 'watching',
    configureServer({ watcher }) {
      watching = once(watcher, 'ready')
      // Without a port it may be up before `createServer` has returned.
      events ??= queues(harnessOf(plugin)!)
    }
  }
  const plugins = harnessHmr({ entry: 'harness.ts', ...options })
  const [plugin] = plugins
  const server = await createServer({
    root,
    configFile: false,
    customLogger: collect(lines),
    server: { port: anyPort(), host: '127.0.0.1' },
    resolve: { alias: { 'harness-hmr/scope': join(repository, 'plugin/scope.ts') } },
    ...config,
    plugins: [plugins, watcher, config.plugins]
  })
  const close = closing(server, root)
  onTestFinished(close)
  if (server.httpServer) await server.listen()
  await watching

  const write = (file: string, source: string) => {
    mkdirSync(dirname(join(root, file)), { recursive: true })
    writeFileSync(join(root, file), source)
  }
  return {
    root,
    server,
    lines,
    write,
    harness: harnessOf(plugin)!,
    next: events,
    close,
    follow: () =>
      promptly(new Promise<void>(resolve => harnessOf(plugin)!.listen({ ready: () => resolve() })), 'the new harness'),
    edit: (file, change) => {
      const before = readFileSync(join(root, file), 'utf8')
      const after = typeof change === 'string' ? change : change(before)
      if (after === before) throw new Error(`edit of "${file}" changes nothing`)
      write(file, after)
      return nextOf(events)
    },
    // Without Cordis' tracing proxy, which is made anew for each read.
    service: name => {
      const traced = harnessOf(plugin)!.running!.fibers.root.get(name) as { [original]?: never } | undefined
      return (traced?.[original] ?? traced) as never
    }
  }
}

/** Closes a server once, and lets go of it then: a test that starts hundreds would keep them all until it ends. */
function closing(server: ViteDevServer, root: string): () => Promise<void> {
  let open: ViteDevServer | undefined = server
  return async () => {
    await open?.close()
    open = undefined
    rmSync(root, { recursive: true, force: true, maxRetries: 5 })
  }
}

/** A temporary folder with files, in which the repository's packages resolve. */
export function createFolder(files: Record<string, string>): string {
  const root = realpathSync(mkdtempSync(join(tmpdir(), 'harness-hmr-')))
  onTestFinished(() => rmSync(root, { recursive: true, force: true, maxRetries: 5 }))
  linkPackages(root)
  for (const [file, source] of Object.entries(files)) {
    mkdirSync(dirname(join(root, file)), { recursive: true })
    writeFileSync(join(root, file), source)
  }
  return root
}

/** A watcher may announce one save twice; the second time the content is the same. */
async function nextOf(next: App['next']): Promise<ReloadReport> {
  for (;;) {
    const report = await next('reload')
    if (report.outcome !== 'ignored' || report.reason?.code !== 'same') return report
  }
}

function queues(harness: Harness): App['next'] {
  const told: { [K in keyof Events]?: unknown[] } = {}
  const waiting: { [K in keyof Events]?: ((event: unknown) => void)[] } = {}
  const tell = (kind: keyof Events) => (event: unknown) => {
    const waiter = waiting[kind]?.shift()
    if (waiter) waiter(event)
    else (told[kind] ??= []).push(event)
  }
  const kinds: (keyof Events)[] = ['ready', 'failed', 'reload', 'audit', 'slow', 'error']
  harness.listen(Object.fromEntries(kinds.map(kind => [kind, tell(kind)])) as Partial<HarnessEvents>)
  return kind => {
    const event = told[kind]?.shift()
    if (event !== undefined) return Promise.resolve(event as never)
    return promptly(
      new Promise<never>(resolve => (waiting[kind] ??= []).push(resolve as never)),
      `event "${kind}"`,
      15_000
    )
  }
}

function collect(lines: string[]) {
  const logger = createLogger('info', { allowClearScreen: false })
  const push = (line: string) => void lines.push(stripVTControlCharacters(line))
  return { ...logger, info: push, warn: push, warnOnce: push, error: push }
}
