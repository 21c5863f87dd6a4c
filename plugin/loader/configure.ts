/**
 * The transaction for a saved configuration file. The loader applies the rows; what it does not do is asked of it in order:
 * new modules are loaded before anything is taken down, drivers park, what goes is drained, and what fails is undone.
 */
import type { Retired } from '../audit/audit.ts'
import { describeError } from '../report/describe.ts'
import { reason, type ReloadReport } from '../report/report.ts'
import { type Change, changeOf } from '../reload/change.ts'
import { close, goneOrLeft } from '../reload/close.ts'
import { disable } from '../reload/disable.ts'
import { drain } from '../reload/drain.ts'
import type { Cause } from '../reload/plan.ts'
import { finish, openReport, providerReports } from '../reload/report.ts'
import type { Meanwhile } from '../reload/running.ts'
import { Steps } from '../reload/steps.ts'
import { audit, retire, serveAgain } from '../reload/targets.ts'
import { type Edits, editsOf, rowReports } from './edits.ts'
import { type GoingRows, goingOfRows } from './going.ts'
import { installRows, restoreRows } from './install.ts'
import { unread } from './read.ts'
import type { RunningRows } from './rows.ts'

/** Makes the rows of saved files run. Never throws: the report says what went wrong, and in which step. */
export async function configure(
  id: number,
  cause: Cause,
  running: RunningRows,
  meanwhile: Meanwhile = {}
): Promise<ReloadReport> {
  const listenerGrowth = running.leaks.countListeners()
  const steps = new Steps(openReport(id, cause), running.onStep)
  const { report, step } = steps
  let edits: Edits = { readings: [], edits: [] }
  let going: GoingRows | undefined
  let change: Change | undefined
  try {
    edits = await step('affected', () => editsOf(cause.files, running.rows))
    report.rows = rowReports(edits)
    if (edits.edits.length === 0) {
      // It may say otherwise what it said, or something else of what is switched off.
      for (const { tree, rows } of edits.readings) await tree.root.update(rows)
      report.reason = reason('same')
      return await finish(steps, cause, running, meanwhile, listenerGrowth)
    }
    await step('stage', async () => {
      await loadRows(edits, running)
      going = goingOfRows(edits, running)
      report.providers = providerReports({ ...going, targets: going.targets.slice(0, going.own) })
      change = await changeOfRows(going, running)
    })
    await step('close', () => close(change!, running, steps, meanwhile.abandon?.close))
    await step('drain', () => drain(change!, running, steps, meanwhile.abandon?.drain))
    await step('disable', () => disableRows(change!, going!, running, steps))
    await step('install', async () => {
      running.stopped.throwIfAborted()
      change!.staged.commit()
      steps.failed(await installRows(edits, going!, running))
      steps.failed(await change!.staged.accept())
    })
    report.outcome = 'reloaded'
  } catch (error) {
    report.error = describeError(error, steps.current)
    report.outcome = change?.closing ? 'rolled-back' : 'kept'
    if (change?.closing) await rollBack(edits, going!, change, running, steps)
    else for (const reading of edits.readings) unread(reading)
  }
  await steps.try(() => forgetUnused(edits, running))
  await steps.try(() => audit(change?.retired ?? [], id, running))
  return finish(steps, cause, running, meanwhile, listenerGrowth)
}

/** Loads what new rows ask for. @throws what their modules throw, and for one that exports no plugin. */
async function loadRows({ edits }: Edits, { rows }: RunningRows): Promise<void> {
  for (const { id, next, change, reading } of edits) {
    if (!next || change === 'configured' || next.name.startsWith('cordis:')) continue
    const plugin = rows.unwrap(await rows.load(next.name, reading.tree))
    const isPlugin = typeof plugin === 'function' || typeof (plugin as { apply?: unknown } | null)?.apply === 'function'
    if (!isPlugin) throw new Error(`row "${id}": "${next.name}" exports no plugin`)
  }
}

async function changeOfRows(going: GoingRows, { host, limits, stopped }: RunningRows): Promise<Change> {
  const patience = { ms: limits.deadline, signal: stopped }
  const stage = await host.stage(going.modules, [], new Set(), patience)
  const staged = { ...stage, successors: [], accept: host.hot.pruner(stage.unused) }
  return changeOf({ kind: 'reload', modules: going.modules, roots: [], accepted: [] }, going, staged)
}

/** Retires what is gone. Of a module whose other instances, or next ones, go on, only the instances are. */
async function disableRows(change: Change, going: GoingRows, running: RunningRows, steps: Steps): Promise<void> {
  const isGone = ({ module }: { module: string }) => going.modules.has(module)
  const targets = going.targets.filter(isGone)
  await disable({ ...change, going: { ...going, targets } }, running, steps)
  const abandoned = change.isDrained ? undefined : change.closing!.gone
  for (const target of going.targets) {
    if (isGone(target)) continue
    const retired: Retired = { ...retire(target, steps.report.id, [], [], abandoned), serves: true }
    change.retired.push(retired)
  }
}

async function rollBack(
  edits: Edits,
  going: GoingRows,
  change: Change,
  running: RunningRows,
  steps: Steps
): Promise<void> {
  await steps.try(async () => steps.failed(await change.staged.revert()))
  if (running.stopped.aborted) return
  await goneOrLeft(change.closing!, running)
  await steps.try(async () => steps.failed(await restoreRows(edits, going, running)))
  serveAgain(change.retired)
}

/** Forgets what was loaded for rows that do not run after all. */
async function forgetUnused({ edits }: Edits, { host, rows }: RunningRows): Promise<void> {
  const loaded = edits.flatMap(({ next, reading }) => (next && rows.moduleFor(next.name, reading.tree)) ?? [])
  const ours = new Set(host.modules())
  const isUnused = (id: string) => ours.has(id) && !rows.asksFor(id) && host.importers(id).length === 0
  const modules = new Set(loaded.filter(isUnused))
  if (modules.size === 0) return
  const stage = await host.stage(modules, [])
  await host.hot.dispose(modules)
  stage.commit()
  await host.hot.pruner(stage.unused)()
}
