import type { Context } from 'cordis'
import type { Browsers, BrowserPage, HarnessHmr, ReloadReport } from 'harness-hmr'
import type { Agent } from '../providers/agents.ts'
import { edited, EDITS, isActive, type ReadyEdit } from './page/edits.ts'
import { Limits } from './page/limits.ts'
import type { AgentView, EditView, FromHarness, Requests, SessionView, Snapshot, SourcesView } from './page/protocol.ts'
import type { Sources } from './sources.ts'

/** How many events of a session a page gets; the others stay in its file. */
const EVENTS_SHOWN = 300
/** Milliseconds that a prompt waits for an agent that is being resumed. */
const PATIENCE = 15_000
const MAX_PROMPT = 4000

/** An edit that a page has made or undone. */
interface Made {
  path: string
  undone: boolean
  /** The id of the report that says what came of it, once that is there. */
  report?: number
}

type Handlers = { [K in keyof Requests]: (data: Record<string, unknown>) => Requests[K][1] | Promise<Requests[K][1]> }

/**
 * Shows the harness to the playground's page and takes its prompts and edits. It injects nothing, so that it goes on while
 * what it shows is replaced; while no page is open it does nothing.
 */
export class Page {
  private readonly ctx: Context
  private readonly pages = new Set<BrowserPage>()
  private readonly limits = new Limits()
  private readonly made = new Map<string, Made>()
  private leave = () => {}

  constructor(ctx: Context) {
    this.ctx = ctx
    const browsers = ctx.get('harnessHmr')?.browsers
    if (browsers) ctx.effect(() => this.listen(browsers), 'page.listen()')
  }

  private *listen(browsers: Browsers): Generator<() => void> {
    yield () => this.leave()
    // Who looks on from another machine sees everything, and is told why he can do nothing.
    const guests = { guests: true }
    yield browsers.on('playground:open', (_, page) => this.opened(page), guests)
    yield browsers.on('vite:client:disconnect', (_, page) => this.closed(page), guests)
    yield browsers.on('playground:request', (data, page) => this.request(data, page), guests)
    // Pages that were open before this one was installed.
    browsers.send('playground:here')
  }

  private opened(page: BrowserPage): void {
    if (this.pages.has(page)) return
    if (this.pages.size === 0) this.leave = this.watch()
    this.pages.add(page)
    page.send('playground:snapshot', this.snapshot())
  }

  private closed(page: BrowserPage): void {
    if (this.pages.delete(page) && this.pages.size === 0) this.leave()
  }

  private tell<K extends keyof FromHarness>(event: K, data: FromHarness[K]): void {
    for (const page of this.pages) page.send(`playground:${event}`, data)
  }

  /** Follows what happens; returns how to stop. */
  private watch(): () => void {
    const { ctx } = this
    const is = (is: FromHarness['agent']['is']) => (event: { agent: Agent }) =>
      this.tell('agent', { ...viewOf(event.agent), is })
    const listeners = [
      ctx.on('session/event', update => this.tell('event', update)),
      ctx.on('agent/delta', ({ agent, promptId, step, text }) =>
        this.tell('delta', { agent: agent.id, promptId, step, text })
      ),
      ctx.on('agent/created', is('created')),
      ctx.on('agent/disposed', is('disposed')),
      ctx.on('agent/driving', is('driving')),
      ctx.on('agent/parked', is('parked')),
      ctx.on('harness-hmr/before-reload', ({ services }) => this.tell('reloading', { services })),
      ctx.on('harness-hmr/report', report => {
        this.assign(report)
        this.tell('report', { report, ...this.sourcesView() })
      }),
      ctx.on('harness-hmr/audit', audit => this.tell('audit', audit))
    ]
    return () => {
      for (const stop of listeners) void stop()
    }
  }

  private async request(data: unknown, page: BrowserPage): Promise<void> {
    const { id, name, ...args } = Object(data) as Record<string, unknown>
    const answer = (result: object) => page.send('playground:answer', { id, ...result })
    try {
      this.limits.assertMay(page, String(name))
      if (!Object.hasOwn(this.handlers, String(name))) throw new Error(`there is no request "${String(name)}"`)
      answer({ result: await this.handlers[name as keyof Requests](args) })
    } catch (error) {
      answer({ error: error instanceof Error ? error.message : String(error) })
    }
  }

  private readonly handlers: Handlers = {
    prompt: async ({ agent: id, text }) => {
      if (typeof text !== 'string' || text.trim() === '') throw new Error('a prompt needs a text')
      if (text.length > MAX_PROMPT) throw new Error(`a prompt has ${MAX_PROMPT} characters at most`)
      await this.prompt(String(id), text)
    },
    cancel: async ({ agent }) => (await this.agent(String(agent))).cancel(),
    edit: ({ edit: id }) => {
      const edit = EDITS.find(edit => edit.id === id)
      if (!edit?.path) throw new Error(`there is no edit "${String(id)}"`)
      const file = this.sources().write(edit.path, edited(edit, this.sources().original(edit.path)))
      for (const [id, { path }] of this.made) if (path === edit.path) this.made.delete(id)
      this.made.set(edit.id, { path: edit.path, undone: false })
      this.reload(file)
    },
    undo: ({ path }) => {
      const known = this.listed(path)
      const undone = this.active().filter(edit => edit.path === known)
      const file = this.sources().drop(known)
      for (const { id } of undone) this.made.set(id, { path: known, undone: true })
      this.reload(file)
    },
    read: ({ path }) => {
      const known = this.listed(path)
      return { text: this.sources().read(known), original: this.sources().original(known) }
    },
    session: ({ session }) => this.session(String(session))
  }

  /** Whoever sits at the page is nobody's agent. */
  private async prompt(id: string, text: string): Promise<void> {
    for (;;) {
      const agent = await this.agent(id)
      const agents = this.ctx.get('agents')
      // Both may have gone in the meantime.
      if (agents && agents.get(id) === agent) return void agents.withoutInitiator(() => agent.prompt(text))
    }
  }

  /** A live agent; one that is being resumed is waited for. */
  private async agent(id: string): Promise<Agent> {
    const { ctx } = this
    const live = ctx.get('agents')?.get(id)
    if (live && !live.session.closed) return live
    const events = ctx.get('sessions')?.read(id)
    if (events && (events.length === 0 || events.at(-1)?.type === 'ended'))
      throw new Error(`there is no agent "${id}" any more`)
    const gone = new Error(`agent "${id}" is not there yet, try again`)
    return new Promise((resolve, reject) => {
      const stop = ctx.effect(function* () {
        const timer = setTimeout(() => void stop(), PATIENCE)
        // What is settled already does not mind.
        yield () => reject(gone)
        yield () => clearTimeout(timer)
        yield ctx.on('agent/created', ({ agent }) => {
          if (agent.id !== id) return
          resolve(agent)
          void stop()
        })
      }, `page.agent("${id}")`)
    })
  }

  private reload(file: string): void {
    const ticket = this.hmr().request(file)
    if (ticket.when === 'never') throw new Error(ticket.message)
  }

  private snapshot(): Snapshot {
    const agents = this.ctx.get('agents')?.list() ?? []
    const { reports, audits } = this.hmr()
    return {
      agents: agents.map(viewOf),
      sessions: agents.map(({ id, session }) => ({ id, events: session.events.slice(-EVENTS_SHOWN) })),
      reports,
      audits,
      edits: this.ctx.get('sources') ? EDITS.map(editView) : [],
      ...this.sourcesView()
    }
  }

  private session(id: string): SessionView {
    return { id, events: this.ctx.get('sessions')?.read(id).slice(-EVENTS_SHOWN) ?? [] }
  }

  private sourcesView(): SourcesView {
    const { providers } = this.hmr()
    const active = this.active().map(({ id }) => id)
    const current = [...this.made].filter(([id, { undone }]) => undone !== active.includes(id))
    const cameOf = Object.fromEntries(current.flatMap(([id, { report }]) => (report ? [[id, report]] : [])))
    return { sources: this.ctx.get('sources')?.list() ?? [], providers, active, cameOf }
  }

  /** The ready-made edits that are in place. */
  private active(): ReadyEdit[] {
    const sources = this.ctx.get('sources')
    return EDITS.filter(
      edit => sources && edit.path && isActive(edit, sources.read(edit.path), sources.original(edit.path))
    )
  }

  /** The first report of its file is an edit's own: a later one may be that of another save, which tries it again. */
  private assign({ id, cause, retried }: ReloadReport): void {
    if (retried) return
    for (const made of this.made.values()) {
      const source = this.ctx.get('sources')?.at(made.path)
      if (source && (cause.includes(source.file) || cause.includes(source.written))) made.report ??= id
    }
  }

  /** A path that a page has named, which is one of the sources. */
  private listed(path: unknown): string {
    if (
      !this.sources()
        .list()
        .some(source => source.path === path)
    )
      throw new Error(`there is no source file "${String(path)}"`)
    return path as string
  }

  private sources(): Sources {
    const sources = this.ctx.get('sources')
    if (!sources) throw new Error('the sources cannot be edited here')
    return sources
  }

  private hmr(): HarnessHmr {
    return this.ctx.get('harnessHmr')!
  }
}

function viewOf({ id, parent }: Agent): AgentView {
  return { id, parent }
}

function editView({ id, title, says, path, ask }: ReadyEdit): EditView {
  return { id, title, says, path, ask }
}

export default Page
