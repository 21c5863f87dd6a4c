/** One running harness: boot, one reload at a time, stop. */
import { basename, isAbsolute } from 'node:path'
import { normalizePath, type DevEnvironment, type ViteDevServer } from 'vite'
import { cleanUrl } from 'vite-node/utils'
import { boot } from './boot.ts'
import type { HarnessOptions } from './types.ts'
import { BrowserChannel } from './browsers.ts'
import { clearTimeout, now, setTimeout, timestamp } from '../guard/clock.ts'
import { describeError } from '../report/describe.ts'
import { FiberState } from '../cordis/cordis.ts'
import type { Generation } from '../audit/creators.ts'
import { History } from './history.ts'
import { openIn } from '../audit/ledger.ts'
import type { LateError } from '../leaks/leftovers.ts'
import { missingServices } from '../reload/install.ts'
import { Missing } from './missing.ts'
import type { Cause } from '../reload/plan.ts'
import { reload } from '../reload/reload.ts'
import { type AuditReport, isSuccess, mended, type ReportError, type WhyReport } from '../report/report.ts'
import { Rounds } from './rounds.ts'
import type { HarnessEvents, Progress, Waits } from '../report/events.ts'
import type { Limits } from '../reload/running.ts'
import { configure } from '../loader/configure.ts'
import type { RunningRows } from '../loader/rows.ts'
import { Saves, writtenSince } from './saves.ts'
import { whyRetained } from './search.ts'
import { ticketFor, type HarnessHmr, runningProviders, type Status, type Ticket } from './service.ts'
import { Visitors } from './visitors.ts'
import type { WhyOptions } from '../why/why.ts'
import { outside } from '../guard/outside.ts'
import { printable, printableLine } from '../guard/printable.ts'
import { within } from '../guard/within.ts'

/** How many open boundaries of an abandoned generation are listed. */
const BOUNDARIES_SHOWN = 100

/** Milliseconds that the drain, and then the end of the harness, may take: a person waits for it. */
const LONGEST_STOP = 5000

/** The steps of a reload in which something may be down. */
const UNDERWAY = new Set<Progress['step'] | undefined>(['close', 'drain', 'disable', 'install'])

type State = { kind: 'booting' | 'failed' | 'stopped' } | { kind: 'running'; running: Awaited<ReturnType<typeof boot>> }

/** Runs a harness in a Vite environment, and reloads what a save reaches, one reload at a time. */
export class Harness {
  readonly #env: DevEnvironment
  readonly #options: HarnessOptions
  readonly #listeners = new Set<Partial<HarnessEvents>>()
  readonly #saves = new Saves(file => this.changed(file))
  /** Files and modules that have not been looked at yet; what is saved meanwhile joins them. */
  readonly #pending: { files: Set<string>; modules: Set<string> } = { files: new Set(), modules: new Set() }
  /** Files whose newest content is not what runs, since it could not be reloaded. */
  #dirty = new Set<string>()
  /** What could not be found when something could not be reloaded, or the harness not boot. */
  readonly #missing: Missing
  #state: State = { kind: 'booting' }
  #work: Promise<void> = Promise.resolve()
  #reloads = 0
  /** What runs now, and what ends its evaluation, or its drain. */
  #underway:
    | {
        files: string[]
        newer: AbortController
        abandon?: Record<Waits['step'], AbortController>
        began: number
        isBoot: boolean
      }
    | undefined
  /** Files whose evaluation did not end, with the modules on which it hung: tried again when one of those is saved. */
  readonly #hanging = new Map<string, string[]>()
  readonly #rounds = new Rounds()
  /** Saves that wait, since the harness makes them itself. */
  readonly #slowed = new Map<string, NodeJS.Timeout>()
  /** What was told so far, for whoever asks later. */
  readonly history = new History()
  /** Who is connected. */
  readonly visitors: Visitors
  readonly #browsers: BrowserChannel
  /** Ends what may take long. */
  readonly #stopped = new AbortController()
  /** Ends what a stop waits for. */
  readonly #halted = new AbortController()
  /** While a reload runs, what Cordis logs belongs to its report. */
  #failures: unknown[] | undefined
  /** Errors that are told when the boot has ended: the one that it fails with is told as that. */
  #early: ReportError[] | undefined

  constructor(env: DevEnvironment, options: HarnessOptions, socket: ViteDevServer['ws']) {
    this.#env = env
    this.#options = options
    this.#missing = new Missing(env.config.root)
    this.listen(this.history.notes)
    this.visitors = new Visitors(socket, env.config.server, options.remote)
    this.#browsers = new BrowserChannel(socket, this.visitors, error => this.report(error))
  }

  /**
   * Content that counts as saved although it is not on disk, by file. Whoever puts some here makes Vite load it, and says
   * so by `changed`.
   */
  get unsaved(): Map<string, string> {
    return this.#saves.unsaved
  }

  /** Calls the given functions when the harness tells something; returns how to stop. */
  listen(listener: Partial<HarnessEvents>): () => void {
    this.#listeners.add(listener)
    return () => this.#listeners.delete(listener)
  }

  /** Tells of an error that belongs to no reload. */
  report(error: unknown): void {
    this.#tell('error', describeError(error, 'run'))
  }

  /** Absolute path of the entry. */
  get entry(): string {
    return this.#options.entry
  }

  get state(): Status['state'] {
    return this.#failures ? 'reloading' : this.#state.kind
  }

  /** The parts of the harness while it runs. */
  get running() {
    return this.#state.kind === 'running' ? this.#state.running : undefined
  }

  /** What the harness finds as `ctx.harnessHmr`. */
  get service(): HarnessHmr {
    // Arrow functions see this harness; the object itself is what Cordis hands out.
    const status = () => this.status
    const providers = () => runningProviders(this.running)
    const { history } = this
    const { on, send } = this.#browsers
    return {
      request: path => this.request(path),
      get status() {
        return status()
      },
      reports: history.reloads,
      get audits() {
        return [...history.audits.values()]
      },
      get providers() {
        return providers()
      },
      browsers: { on, send },
      note: message => this.#tell('note', message)
    }
  }

  /**
   * Boots the harness. A failure is told, and the next save tries again.
   * @param watching - resolves when the watcher tells of saves; what was saved before that is found then.
   */
  async start(watching: Promise<unknown> = Promise.resolve()): Promise<void> {
    const since = timestamp()
    await this.#enqueue(() => this.#boot())
    await watching
    for (const file of await writtenSince(since, this.running?.host.files() ?? [])) this.changed(file)
  }

  /** A file was saved, created or deleted. Returns at once; what it asks for runs after what runs now. */
  changed(file: string): void {
    if (this.#stopped.signal.aborted) return
    // It may become relevant before the watcher sees its next save.
    if (this.#isIrrelevant(normalizePath(file))) return void this.#saves.look(file)
    void this.#obsolete(normalizePath(file))
    this.#slowDown(normalizePath(file))
  }

  /** Replaces modules although their code is the same: their importers decide as if they had been saved. */
  invalidate(ids: string[]): void {
    if (this.running && ids.length > 0) this.#add('modules', ids)
  }

  /** A setting has changed (tsconfig.json): once everything is read again, what is made otherwise now counts as saved. */
  recheck(readAnew: () => Promise<void>): void {
    void this.#enqueue(async () => {
      if (this.#stopped.signal.aborted) return
      await readAnew()
      if (this.#state.kind === 'failed') return this.#boot()
      const { running } = this
      const differing: string[] = []
      for (const id of running?.host.modules() ?? []) if (await running!.host.isChanged(id)) differing.push(id)
      const files = new Set(differing.filter(id => isAbsolute(id)).map(id => cleanUrl(id)))
      // What could not be reloaded is tried together with the others, and then without: it blocks none.
      const sound = [...files].filter(file => !this.#dirty.has(file))
      const saved = sound.length > 0 ? sound : [...this.#dirty]
      for (const file of saved) this.#saves.forget(file)
      this.#add('files', saved)
      this.invalidate(differing.filter(id => !isAbsolute(id)))
    })
  }

  /** The limits of a reload, in milliseconds. */
  get limits(): Limits {
    const { grace, warnAfter, deadline } = this.#options
    return { grace, warnAfter, deadline }
  }

  /** Looks now at every retired generation without a final verdict; resolves when each has been reported on. */
  async audit(): Promise<void> {
    await this.running?.auditor.run()
  }

  /** Searches the heap for what keeps retired generations, one of them or all. */
  async why(only?: Generation): Promise<WhyReport[]> {
    const { running } = this
    if (!running) return []
    const onProgress: WhyOptions['onProgress'] = (stage, fraction) =>
      this.#tell('progress', { what: 'why', stage, fraction })
    const reports = await whyRetained(
      running,
      { root: this.#env.config.root, onProgress, signal: this.#stopped.signal },
      only
    )
    for (const report of reports) this.#tell('why', report)
    return reports
  }

  /** Forgets the reports: so many are kept that they would look like growth where that is measured. */
  forgetReports(): void {
    this.history.clear()
  }

  /** Lets the reload that waits go on, as when the time is over; says which step it was, and nothing when none waits. */
  abandon(): Waits['step'] | undefined {
    const { step } = this.history.progress ?? {}
    if (step !== 'close' && step !== 'drain') return undefined
    this.#underway?.abandon?.[step].abort()
    return step
  }

  /** Resolves when what is queued now has run. */
  idle(): Promise<void> {
    return this.#work
  }

  /** Resolves when what is on disk was looked at, also what no watcher has told yet, and the reloads for it have ended. */
  async settle(): Promise<void> {
    const { host } = this.running ?? {}
    const stale = host?.modules().filter(id => host.isStale(id)) ?? []
    for (const file of new Set(stale.map(id => cleanUrl(id)))) this.changed(file)
    for (let work: Promise<void> | undefined; work !== this.#work;) await (work = this.#work)
  }

  /** Disposes the harness after the reload that runs now, which waits for nothing any more. */
  stop(): Promise<void> {
    this.#stopped.abort(new Error('the harness stops'))
    // A drain that does not end must not keep the process: it ends with it.
    const ms = Math.min(this.#options.deadline, LONGEST_STOP)
    const timer = setTimeout(() => this.#halted.abort(), ms)
    this.#saves.close()
    for (const timer of this.#slowed.values()) clearTimeout(timer)
    return this.#enqueue(async () => {
      const { running } = this
      this.#state = { kind: 'stopped' }
      if (running) await within(ms, running.stop())
      clearTimeout(timer)
      this.#browsers.close()
      this.visitors.close()
    })
  }

  /**
   * Most saved files are not the harness': a log or a session that it writes itself must not have it tried again. While
   * something is broken, what its new code was made of, or has asked for and did not find, may be what mends it.
   */
  #isIrrelevant(file: string): boolean {
    if (this.running?.rows.files().has(file)) return false
    const isWhole = this.#dirty.size === 0 && !this.running?.rows.failed().length
    if (this.running && isWhole) return this.running.host.modulesOf(file).length === 0
    const isAsked = file === this.#options.entry || this.#dirty.has(file) || this.#missing.has(file)
    return !isAsked && !this.#env.moduleGraph.getModulesByFile(file)?.size
  }

  /** Asks for a reload of a file, as its save does; returns at once. */
  request(path: string): Ticket {
    const ticket = ticketFor(path, this.#env.config.root, this.running)
    if (ticket.when !== 'never') this.changed(ticket.file)
    return ticket
  }

  /** What goes on now. */
  get status(): Status {
    const abandoned = this.running?.auditor.abandoned() ?? []
    return {
      state: this.state,
      pending: [...this.#pending.files],
      dirty: [...this.#dirty],
      abandoned: abandoned.map(({ name, generation, storages }) => ({
        provider: printableLine(`${name} ${generation}`),
        boundaries: openIn(storages, BOUNDARIES_SHOWN)
      }))
    }
  }

  #add(kind: 'files' | 'modules', ids: string[]): void {
    if (this.#stopped.signal.aborted) return
    const isFirst = this.#pending.files.size + this.#pending.modules.size === 0
    for (const id of ids) this.#pending[kind].add(id)
    if (isFirst) void this.#enqueue(() => this.#apply())
  }

  /** What is evaluated now is given up when newer content of it has been saved: it may never end. */
  async #obsolete(file: string): Promise<void> {
    const underway = this.#underway
    if (!underway || !(underway.isBoot || underway.files.includes(file))) return
    if (await this.#saves.isNewer(file, underway.began))
      underway.newer.abort(new Error(`"${basename(file)}" was saved again`))
  }

  /** A file that the harness writes each time that it is reloaded for it has to wait, and others get their turn. */
  #slowDown(file: string): void {
    if (this.#slowed.has(file)) return
    const ms = this.#rounds.waitFor(file)
    if (ms === 0) return this.#add('files', [file])
    const message = `"${basename(file)}" was written during each of the last ${this.#rounds.of(file)} reloads that it caused: the harness writes it itself. It is looked at again in ${Math.round(ms / 1000)} s; write it only when its content changes`
    this.#tell('error', { message, step: 'run', location: { file, line: 1, column: 1 } })
    const timer = setTimeout(() => {
      this.#slowed.delete(file)
      this.#add('files', [file])
    }, ms)
    this.#slowed.set(file, timer.unref())
  }

  #tell<E extends keyof HarnessEvents>(event: E, ...args: Parameters<HarnessEvents[E]>): void {
    const said = printable(args)
    for (const listener of this.#listeners) {
      try {
        // One entry of the table at a time: TypeScript cannot see that the function and its arguments belong together.
        ;(listener[event] as ((...args: unknown[]) => void) | undefined)?.(...said)
      } catch (error) {
        // Who listens to what must not decide what is done next; the next one may show it.
        if (event !== 'error') this.report(error)
      }
    }
  }

  #enqueue(task: () => Promise<void>): Promise<void> {
    // Outside of every context: a reload in that of who asked for it would be let go by what it drains itself.
    const work = outside(() => this.#work.then(task))
    // What goes wrong here is our own fault, and no reason to leave the saves that follow unheard.
    return (this.#work = work.catch((error: unknown) => this.report(error)))
  }

  async #boot(): Promise<void> {
    if (this.#stopped.signal.aborted) return
    const start = now()
    const newer = new AbortController()
    this.#early = []
    this.#underway = { files: [], newer, began: timestamp(), isBoot: true }
    try {
      const running = await boot(
        this.#env,
        this.#options,
        {
          audit: report => this.#audited(report),
          auditWaits: megabytes => this.#tell('auditWaits', megabytes),
          slow: waits => this.#tell('slow', waits),
          step: (progress, waits) => this.#tell('step', progress, waits),
          error: (error, unseen) => this.#error(error, unseen),
          late: late => this.#late(late),
          isReloading: () => UNDERWAY.has(this.history.progress?.step),
          unresolved: path => this.#missing.add(path),
          idle: () => this.idle(),
          note: message => this.#tell('note', message),
          invalidate: ids => this.invalidate(ids)
        },
        this.service,
        { newer: newer.signal, stopped: this.#stopped.signal, halted: this.#halted.signal }
      )
      this.#state = { kind: 'running', running }
      // Rows whose modules could not be loaded are tried again when one of what they have asked for is saved.
      const failedRows = running.rows.failed()
      this.#dirty = new Set(failedRows.flatMap(({ parent }) => running.rows.fileOf(parent.tree) ?? []))
      if (failedRows.length === 0) this.#missing.clear()
      const fibers = [...running.fibers.all()].filter(({ parent }) => parent.fiber.runtime)
      const failed = fibers.filter(({ state }) => state === FiberState.FAILED).map(({ name }) => name)
      failed.push(...failedRows.map(({ options }) => options.name))
      const waiting = fibers
        .filter(({ state }) => state === FiberState.PENDING)
        .map(fiber => ({ provider: fiber.name, services: missingServices(fiber) }))
      this.#tellEarly()
      this.#tell('ready', { providers: fibers.length, failed, waiting, ms: now() - start })
    } catch (error) {
      this.#state = { kind: 'failed' }
      // Otherwise it is tried again at once, or never.
      const failed = describeError(error, 'boot')
      this.#tellEarly(failed)
      if (!newer.signal.aborted && !this.#stopped.signal.aborted) this.#tell('failed', failed)
    } finally {
      this.#underway = undefined
    }
  }

  async #apply(): Promise<void> {
    const files: string[] = []
    for (const file of this.#pending.files) if (await this.#saves.read(file)) files.push(file)
    const modules = [...this.#pending.modules]
    this.#pending.files.clear()
    this.#pending.modules.clear()
    if (this.#state.kind === 'failed') return this.#boot()
    if (files.length === 0 && modules.length === 0) return
    // With what could not be reloaded before, so that a change over two files comes live with the second; and without
    // it if that fails, so that a broken provider blocks no other.
    const again = [...this.#dirty].filter(file => !files.includes(file) && this.#isWorthATry(file, files))
    const frozen = [...this.#dirty].filter(file => !files.includes(file))
    const dirty = new Set([...this.#dirty, ...files])
    const isFirstOfTwo = again.length > 0
    const together = { files: [...again, ...files], modules, retries: isFirstOfTwo }
    const live = await this.#reload({ ...together, frozen: frozen.filter(file => !again.includes(file)) })
    const left = files.filter(file => !live.has(file))
    const isLive = together.files.every(file => live.has(file))
    if (!isLive && isFirstOfTwo && left.length + modules.length > 0)
      for (const file of await this.#reload({ files: left, modules, frozen, retries: false })) live.add(file)
    for (const file of live) dirty.delete(file)
    await this.running?.rows.retry()
    if (dirty.size === 0 && !this.running?.rows.failed().length) this.#missing.clear()
    for (const file of this.#hanging.keys()) if (!dirty.has(file)) this.#hanging.delete(file)
    this.#dirty = dirty
  }

  /** Where a file's evaluation hung before, only what it hung on can mend it. */
  #isWorthATry(file: string, saved: string[]): boolean {
    const hungOn = this.#hanging.get(file)
    return hungOn === undefined || saved.some(other => hungOn.includes(other))
  }

  /** The files of which the newest content is what runs afterwards. */
  async #reload(cause: Cause): Promise<Set<string>> {
    const { running } = this
    if (!running) return new Set(cause.files)
    const isConfig = (file: string) => running.rows.files().has(file)
    const rows = cause.files.filter(isConfig)
    const modules = { ...cause, files: cause.files.filter(file => !rows.includes(file)) }
    const live = new Set<string>()
    const isMixed = rows.length > 0 && modules.files.length + modules.modules.length > 0
    const configured = async (retries: boolean) =>
      this.#run(configure, { ...cause, files: rows, modules: [], retries }, running)
    // Rows first: a module that is saved with them may be one that they name, or do not name any more.
    let isLive = rows.length === 0 || (await configured(isMixed || cause.retries))
    if (modules.files.length + modules.modules.length > 0) {
      const isReloaded = await this.#run(reload, modules, running)
      if (isReloaded) for (const file of modules.files) live.add(file)
      // Or the rows may say what only its new version takes.
      if (isReloaded && !isLive) isLive = await configured(cause.retries)
    }
    if (isLive) for (const file of rows) live.add(file)
    return live
  }

  /** One transaction. Whether the newest content of the files is what runs afterwards. */
  async #run(transaction: typeof reload | typeof configure, cause: Cause, running: RunningRows): Promise<boolean> {
    for (const file of cause.files) running.host.invalidate(file)
    for (const id of cause.modules) running.host.invalidateModule(id)
    const newer = new AbortController()
    const abandon = { close: new AbortController(), drain: new AbortController() }
    const failures: unknown[] = []
    const { host } = running
    const heard = () => [
      ...failures.map(error => describeError(error, 'run').message),
      ...this.#browsers.removeLeftovers((module, version) => !host.runs(module, version))
    ]
    this.#failures = failures
    this.#underway = { files: cause.files, newer, abandon, began: timestamp(), isBoot: false }
    try {
      const meanwhile = {
        newer: newer.signal,
        abandon: { close: abandon.close.signal, drain: abandon.drain.signal },
        heard
      }
      const told = await transaction(++this.#reloads, cause, running, meanwhile)
      const taken = told.reason?.code === 'same' ? cause.files.filter(file => this.#dirty.has(file)) : []
      const report = printable(taken.length > 0 ? mended(told, this.history.failedFor(taken)) : told)
      const { error } = report
      for (const file of cause.files) {
        this.#rounds.ended(file, await this.#saves.isNewer(file, Infinity))
        if (error?.evaluating) this.#hanging.set(file, error.evaluating)
        else this.#hanging.delete(file)
      }
      this.#failures = undefined
      this.#tell('reload', report)
      // In the harness too: an agent that edited its own provider learns the outcome there.
      running.fibers.emit('harness-hmr/report', report)
      return isSuccess(report)
    } finally {
      this.#failures = this.#underway = undefined
    }
  }

  #audited(verdict: AuditReport): void {
    const report = printable(verdict)
    this.#tell('audit', report)
    this.running?.fibers.emit('harness-hmr/audit', report)
  }

  #late({ error, whose }: LateError): void {
    const described = describeError(error, 'run')
    const message = `${whose}: ${described.message}`
    if (this.#failures) this.#failures.push(new Error(message, { cause: error }))
    else this.#tellError({ ...described, message })
  }

  #error(error: unknown, unseen: boolean): void {
    if (this.#failures) this.#failures.push(error)
    else if (unseen) this.#tellError(describeError(error, 'run'))
  }

  #tellError(error: ReportError): void {
    if (this.#early) this.#early.push(error)
    else this.#tell('error', error)
  }

  #tellEarly(failed?: ReportError): void {
    const early = this.#early ?? []
    this.#early = undefined
    for (const error of early) if (error.message !== failed?.message) this.#tell('error', error)
  }
}
