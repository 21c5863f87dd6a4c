/** One running harness: boot, one reload at a time, stop. */
import { AsyncResource } from 'node:async_hooks'
import { normalizePath, type DevEnvironment, type ViteDevServer } from 'vite'
import { boot, type HarnessOptions } from './boot.ts'
import { BrowserChannel } from './browsers.ts'
import { describeError } from './describe-error.ts'
import { FiberState } from './cordis.ts'
import type { Generation } from './creators.ts'
import { History } from './history.ts'
import { openIn } from './ledger.ts'
import type { LateError } from './leftovers.ts'
import { Missing } from './missing.ts'
import type { Cause } from './plan.ts'
import { type Limits, type Progress, reload, type SlowDrain } from './reload.ts'
import { type AuditReport, isSuccess, type ReloadReport, type ReportError, type WhyReport } from './report.ts'
import { Saves, writtenSince } from './saves.ts'
import { whyRetained } from './search.ts'
import { answer, type HarnessHmr, runningProviders, type Status } from './service.ts'
import type { WhyOptions } from './why.ts'
import { within } from './within.ts'

/** What a harness tells while it runs. */
export interface HarnessEvents {
  /** It is up: how many provider instances run, which failed, and how long the boot took. */
  ready(info: { providers: number; failed: string[]; ms: number }): void
  /** It could not boot; the next save tries again. */
  failed(error: ReportError): void
  reload(report: ReloadReport): void
  audit(report: AuditReport): void
  /** An audit waits for a quiet moment, since the heap has so many megabytes. */
  auditWaits(megabytes: number): void
  /** A drain has taken `warnAfter`. */
  slow(drain: SlowDrain): void
  /** A step of a reload begins; its end is the next step, or the report. */
  step(progress: Progress): void
  why(report: WhyReport): void
  /** How far something long has come, e.g. a search through the heap; `fraction` is 0 to 1. */
  progress(progress: { what: string; stage: string; fraction: number }): void
  /** An error that Cordis logged while no reload ran, and that nothing else shows. */
  error(error: ReportError): void
}

/** How many reports, and how many audits, `ctx.harnessHmr` goes back. */
const KEPT_REPORTS = 100

/** The steps of a reload in which something may be down. */
const UNDERWAY = new Set<Progress['step'] | undefined>(['close', 'drain', 'disable', 'install'])

type State = { kind: 'idle' | 'failed' | 'stopped' } | { kind: 'running'; running: Awaited<ReturnType<typeof boot>> }

/** Runs a harness in a Vite environment, and reloads what a save reaches, one reload at a time. */
export class Harness {
  readonly #env: DevEnvironment
  readonly #options: HarnessOptions
  readonly #listeners = new Set<Partial<HarnessEvents>>()
  readonly #saves = new Saves(file => this.changed(file))
  /** Files and modules that have not been looked at yet; what is saved meanwhile joins them. */
  readonly #pending: { files: Set<string>; modules: Set<string> } = { files: new Set(), modules: new Set() }
  /** Reloads belong to nobody: one that ran in the async context of who asked for it would be let go by what it drains. */
  readonly #context = new AsyncResource('harness-hmr')
  /** Files whose newest content is not what runs, since it could not be reloaded. */
  #dirty = new Set<string>()
  /** What could not be found when something could not be reloaded, or the harness not boot. */
  readonly #missing: Missing
  #state: State = { kind: 'idle' }
  #work: Promise<void> = Promise.resolve()
  #reloads = 0
  readonly #reports: ReloadReport[] = []
  /** Ends the drain of the reload that runs. */
  #giveUp: AbortController | undefined
  /** What was told so far, for who comes later. */
  readonly history = new History()
  readonly #audits: AuditReport[] = []
  readonly #browsers: BrowserChannel
  /** Ends what may take long. */
  readonly #stopped = new AbortController()
  /** While a reload runs, what Cordis logs belongs to its report. */
  #failures: unknown[] | undefined

  constructor(env: DevEnvironment, options: HarnessOptions, socket: ViteDevServer['ws']) {
    this.#env = env
    this.#options = options
    this.#missing = new Missing(env.config.root)
    this.listen(this.history.notes)
    this.#browsers = new BrowserChannel(socket, error => this.#tell('error', describeError(error, 'install')))
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

  /** Absolute path of the entry. */
  get entry(): string {
    return this.#options.entry
  }

  /** `"booting"` until the first boot has ended. */
  get state(): 'booting' | 'running' | 'failed' | 'stopped' {
    return this.#state.kind === 'idle' ? 'booting' : this.#state.kind
  }

  /** The parts of the harness while it runs. */
  get running() {
    return this.#state.kind === 'running' ? this.#state.running : undefined
  }

  /** What the harness finds as `ctx.harnessHmr`. */
  get service(): HarnessHmr {
    // Arrow functions see this harness; the object itself is what Cordis hands out.
    const status = () => this.#status()
    const providers = () => runningProviders(this.running)
    const { on, send } = this.#browsers
    return {
      request: path => {
        const ticket = answer(path, this.#env.config.root, this.running)
        if (ticket.when !== 'never') this.changed(ticket.file)
        return ticket
      },
      get status() {
        return status()
      },
      reports: this.#reports,
      audits: this.#audits,
      get providers() {
        return providers()
      },
      browsers: { on, send }
    }
  }

  /**
   * Boots the harness. A failure is told, and the next save tries again.
   * @param watching - resolves when the watcher tells of saves; what was saved before that is found then.
   */
  async start(watching: Promise<unknown> = Promise.resolve()): Promise<void> {
    const since = Date.now()
    await this.#enqueue(() => this.#boot())
    await watching
    for (const file of await writtenSince(since, this.running?.host.files() ?? [])) this.changed(file)
  }

  /** A file was saved, created or deleted. Returns at once; what it asks for runs after what runs now. */
  changed(file: string): void {
    if (this.#state.kind === 'stopped') return
    // It may become relevant before the watcher sees its next save.
    if (this.#isIrrelevant(normalizePath(file))) return void this.#saves.look(file)
    this.#add('files', [normalizePath(file)])
  }

  /** Replaces modules although their code is the same: their importers decide as if they had been saved. */
  invalidate(ids: string[]): void {
    if (this.running && ids.length > 0) this.#add('modules', ids)
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
    for (const list of [this.#reports, this.#audits]) list.length = 0
    this.history.clear()
  }

  /** Lets the reload whose drain runs go on without it, as at its deadline; false when no drain runs. */
  abandon(): boolean {
    const isDraining = this.history.progress?.step === 'drain'
    if (isDraining) this.#giveUp?.abort()
    return isDraining
  }

  /** Resolves when what is queued now has run. */
  idle(): Promise<void> {
    return this.#work
  }

  /** Disposes the harness after the reload that runs now. */
  stop(): Promise<void> {
    return this.#enqueue(async () => {
      const { running } = this
      this.#state = { kind: 'stopped' }
      this.#stopped.abort(new Error('the harness has stopped'))
      this.#saves.close()
      // A drain that does not end must not keep the process: it ends with it.
      if (running) await within(running.limits.deadline, running.stop())
      this.#browsers.close()
    })
  }

  /**
   * Most saved files are not the harness': a log or a session that it writes itself must not have it tried again. While
   * something is broken, what its new code was made of, or has asked for in vain, may be what mends it.
   */
  #isIrrelevant(file: string): boolean {
    if (this.running && this.#dirty.size === 0) return this.running.host.modulesOf(file).length === 0
    const isAsked = file === this.#options.entry || this.#dirty.has(file) || this.#missing.has(file)
    return !isAsked && !this.#env.moduleGraph.getModulesByFile(file)?.size
  }

  #status(): Status {
    const abandoned = this.running?.auditor.abandoned() ?? []
    return {
      state: this.#failures ? 'reloading' : 'idle',
      pending: [...this.#pending.files],
      dirty: [...this.#dirty],
      abandoned: abandoned.map(({ name, generation, storages }) => ({
        provider: `${name} ${generation}`,
        boundaries: openIn(storages, KEPT_REPORTS)
      }))
    }
  }

  #add(kind: 'files' | 'modules', ids: string[]): void {
    const isFirst = this.#pending.files.size + this.#pending.modules.size === 0
    for (const id of ids) this.#pending[kind].add(id)
    if (isFirst) void this.#enqueue(() => this.#apply())
  }

  #tell<E extends keyof HarnessEvents>(event: E, ...args: Parameters<HarnessEvents[E]>): void {
    // One entry of the table at a time: TypeScript cannot see that the function and its arguments belong together.
    for (const listener of this.#listeners) (listener[event] as ((...args: unknown[]) => void) | undefined)?.(...args)
  }

  #enqueue(task: () => Promise<void>): Promise<void> {
    // What goes wrong here is our own fault, and no reason to leave the saves that follow unheard.
    const work = this.#context.runInAsyncScope(() => this.#work.then(task))
    return (this.#work = work.catch((error: unknown) => this.#tell('error', describeError(error, 'install'))))
  }

  async #boot(): Promise<void> {
    const start = performance.now()
    try {
      const running = await boot(
        this.#env,
        this.#options,
        {
          audit: report => this.#audited(report),
          auditWaits: megabytes => this.#tell('auditWaits', megabytes),
          slow: drain => this.#tell('slow', drain),
          step: progress => this.#tell('step', progress),
          error: (error, unseen) => this.#error(error, unseen),
          late: late => this.#late(late),
          isReloading: () => UNDERWAY.has(this.history.progress?.step),
          unresolved: path => this.#missing.add(path),
          idle: () => this.idle(),
          invalidate: ids => this.invalidate(ids)
        },
        this.service
      )
      this.#state = { kind: 'running', running }
      this.#missing.clear()
      const fibers = [...running.fibers.all()].filter(({ parent }) => parent.fiber.runtime)
      const failed = fibers.filter(({ state }) => state === FiberState.FAILED).map(({ name }) => name)
      this.#tell('ready', { providers: fibers.length, failed, ms: performance.now() - start })
    } catch (error) {
      this.#state = { kind: 'failed' }
      this.#tell('failed', describeError(error, 'install'))
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
    const dirty = new Set([...this.#dirty, ...files])
    const frozen = [...this.#dirty].filter(file => !files.includes(file))
    const isFirstOfTwo = frozen.length > 0
    if (await this.#reload({ files: [...dirty], modules, frozen: [] }, isFirstOfTwo)) {
      this.#missing.clear()
      return this.#dirty.clear()
    }
    // Then alone: what could not be reloaded before goes on as it is.
    if (isFirstOfTwo && (await this.#reload({ files, modules, frozen }))) for (const file of files) dirty.delete(file)
    this.#dirty = dirty
  }

  /** Whether the newest content of the files is what runs afterwards; if not, and `retried`, another try follows. */
  async #reload(cause: Cause, retried = false): Promise<boolean> {
    const { running } = this
    if (!running) return true
    for (const file of cause.files) running.host.invalidate(file)
    for (const id of cause.modules) running.host.invalidateModule(id)
    this.#failures = []
    this.#giveUp = new AbortController()
    const report = await reload(++this.#reloads, cause, running, this.#giveUp.signal)
    const failures = this.#failures.map(error => describeError(error, 'close').message)
    this.#failures = undefined
    report.failures.push(...failures.filter(message => message !== report.error?.message))
    const { host } = running
    report.failures.push(...this.#browsers.removeLeftovers((module, version) => !host.runs(module, version)))
    report.time = Date.now()
    const isLive = isSuccess(report)
    if (retried && !isLive) report.retried = true
    keep(this.#reports, report)
    this.#tell('reload', report)
    // In the harness too: an agent that edited its own provider learns the outcome there.
    running.fibers.emit('harness-hmr/report', report)
    return isLive
  }

  #audited(report: AuditReport): void {
    keep(this.#audits, report)
    this.#tell('audit', report)
    this.running?.fibers.emit('harness-hmr/audit', report)
  }

  #late({ error, whose }: LateError): void {
    const described = describeError(error, 'drain')
    const message = `${whose}: ${described.message}`
    if (this.#failures) this.#failures.push(new Error(message, { cause: error }))
    else this.#tell('error', { ...described, message })
  }

  #error(error: unknown, unseen: boolean): void {
    if (this.#failures) this.#failures.push(error)
    else if (unseen) this.#tell('error', describeError(error, 'install'))
  }
}

function keep<T>(list: T[], item: T): void {
  list.push(item)
  if (list.length > KEPT_REPORTS) list.shift()
}
