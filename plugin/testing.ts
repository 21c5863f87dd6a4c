/** `harness-hmr/testing`: a harness for a test to edit, reload and audit. Nothing on disk is changed. */
import { readFile } from 'node:fs/promises'
import { resolve } from 'node:path'
import { type InlineConfig, normalizePath } from 'vite'
import { generationKey } from './audit/creators.ts'
import { codeFrame } from './report/describe.ts'
import type { HarnessEvents } from './report/events.ts'
import type { AuditReport, Options, ReloadReport, ReportError, WhyReport } from './index.ts'
import { formOf, serve, type Served } from './testing/server.ts'

export { type Assertion, matchers } from './testing/matchers.ts'
export type { AuditReport, Options, ReloadReport, ReportError, WhyReport } from './index.ts'

/** Options of {@link createHarness}: those of `harnessHmr()`, and where the project is. */
export interface TestHarnessOptions extends Partial<Options> {
  /** The project's folder: where its `vite.config` is, and Vite's root unless that names another. Default: the working directory. */
  root?: string
  /** For Vite, over what the project's config file says; `configFile: false` reads none. */
  vite?: InlineConfig
}

/** A running harness in the hands of a test. */
export interface TestHarness<C = any> extends AsyncDisposable {
  /** The root context. */
  readonly ctx: C
  /**
   * Reloads as if a file, relative to the root, had been saved with other content. On disk it stays as it is.
   * @throws when no running module is made of the file, or when nothing changes.
   */
  edit(file: string, change: string | ((source: string) => string)): Promise<ReloadReport>
  /**
   * Reloads a file with the content that it has: its providers are replaced by a new generation of the same.
   * @throws when no running module is made of the file.
   */
  reload(file: string): Promise<ReloadReport>
  /** The reports of the reloads so far, oldest first. */
  reports(): readonly ReloadReport[]
  /** Errors that no report has: what a provider logged, or threw into the process after it was replaced. */
  errors(): readonly ReportError[]
  /** Looks at every generation that was retired; resolves with its last verdict, one for each, oldest first. */
  audit(): Promise<AuditReport[]>
  /** Searches the heap for what keeps the generations that are not collected; takes some seconds. */
  why(): Promise<WhyReport[]>
  /** Disposes the harness and forgets the edits. */
  close(): Promise<void>
}

/**
 * Starts a harness in a Vite server of its own, without a port, a watcher or a line on the console. The project's
 * `vite.config` is read; without an `entry`, its `harnessHmr()` is what runs.
 * @throws when the harness, or a provider of it, does not start, with the place in the source.
 */
export async function createHarness<C = any>(options: TestHarnessOptions = {}): Promise<TestHarness<C>> {
  const { root = process.cwd(), vite = {}, ...rest } = options
  const told = new Told()
  // Here nobody minds that promises are slower for it.
  const named = rest.entry === undefined ? rest : { trace: true, ...rest }
  const served = await serve(resolve(root), named, vite, told.notes)
  told.unsaved = served.harness.unsaved
  return testHarness(served, told)
}

function testHarness<C>({ harness, find, close }: Served, told: Told): TestHarness<C> {
  let closing: Promise<void> | undefined
  const running = () => {
    if (closing) throw new Error('the harness is closed')
    return harness.running!
  }
  /** The last report of what `ask` asks for: an edit is tried with what could not be reloaded before, then alone. */
  const reload = async (ask: () => void) => {
    const before = told.reports.length
    ask()
    await harness.idle()
    const report = told.reports.slice(before).at(-1)
    if (!report) throw new Error('the harness was closed before the reload')
    return report
  }
  return {
    ctx: running().fibers.root as C,
    edit: async (file, change) => {
      running()
      const path = await find(file)
      const modules = running().host.modulesOf(path)
      if (!modules.some(id => formOf(id).file === path && formOf(id).form))
        throw new Error(
          `edit of "${file}": it is read from the disk by ${modules.join(', ')}. Write it, then call \`reload()\``
        )
      const before = harness.unsaved.get(path) ?? (await readFile(path, 'utf8'))
      const after = typeof change === 'string' ? change : change(before)
      if (after === before) throw new Error(`edit of "${file}" changes nothing`)
      harness.unsaved.set(path, after)
      return reload(() => harness.changed(path))
    },
    reload: async file => {
      running()
      const path = await find(file)
      return reload(() => harness.invalidate(running().host.modulesOf(path)))
    },
    reports: () => told.reports,
    errors: () => told.errors,
    audit: async () => {
      await harness.idle()
      await running().auditor.run()
      return [...told.audits.values()]
    },
    why: async () => {
      running()
      return harness.why()
    },
    close: () => (closing ??= close()),
    [Symbol.asyncDispose]() {
      return this.close()
    }
  }
}

/** What a harness has told so far. */
class Told {
  readonly reports: ReloadReport[] = []
  readonly errors: ReportError[] = []
  /** The last verdict on each generation. */
  readonly audits = new Map<string, AuditReport>()
  /** What was edited. */
  unsaved: ReadonlyMap<string, string> = new Map()

  readonly notes: Partial<HarnessEvents> = {
    reload: report => this.reports.push(this.#withFrame(report)),
    audit: report => this.audits.set(generationKey(report), report),
    error: error => this.errors.push(error)
  }

  /** With the lines around an error as they were edited, which the disk does not have. */
  #withFrame(report: ReloadReport): ReloadReport {
    const { location } = report.error ?? {}
    const source = location && this.unsaved.get(normalizePath(location.file))
    return source === undefined
      ? report
      : { ...report, error: { ...report.error!, frame: codeFrame(location!, source) } }
  }
}
