/**
 * The transaction. A change is tried before anything is taken down, and what was taken down comes back when it fails.
 *
 * ```
 *   affected ──▶ stage ──▶ close ──▶ drain ──▶ disable ──▶ install ──▶ audit
 *      │           │         └─────────┴──────────┴───────────┤
 *   ignored      kept: the old version                  rolled-back: the old version
 *                never noticed                          is installed again
 * ```
 */
import { describeError } from '../report/describe.ts'
import { type Change, changeOf } from './change.ts'
import { close } from './close.ts'
import { disable } from './disable.ts'
import { drain } from './drain.ts'
import { install } from './install.ts'
import { type Cause, frozenOf, planOf } from './plan.ts'
import { finish, openReport, providerReports } from './report.ts'
import type { ReloadReport } from '../report/report.ts'
import { rollBack } from './roll-back.ts'
import type { Meanwhile, Running } from './running.ts'
import { stage } from './stage.ts'
import { Steps } from './steps.ts'
import { audit, goingOf } from './targets.ts'
import { withAny } from '../guard/within.ts'

/** Replaces what a cause reaches. Never throws: the report says what went wrong, and in which step. */
export async function reload(
  id: number,
  cause: Cause,
  running: Running,
  meanwhile: Meanwhile = {}
): Promise<ReloadReport> {
  const { host, leaks, limits, stopped } = running
  const listenerGrowth = leaks.countListeners()
  const steps = new Steps(openReport(id, cause), running.onStep)
  const { report, step } = steps
  let change: Change | undefined
  try {
    const plan = await step('affected', () => planOf(cause, running))
    report.reason = plan.reason
    if (plan.kind === 'ignored') return await finish(steps, cause, running, meanwhile, listenerGrowth)
    const going = goingOf(plan.modules, running)
    report.providers = providerReports(going)
    const frozen = frozenOf(cause, host)
    const evaluate = (signal: AbortSignal) =>
      stage(plan, going.instances, host, frozen, { ms: limits.deadline, signal })
    const staged = await step('stage', () => withAny([stopped, meanwhile.newer], evaluate))

    // From the first disposal on, whatever throws ends in the old version, installed again.
    change = changeOf(plan, going, staged)
    await step('close', () => close(change!, running, steps, meanwhile.abandon?.close))
    await step('drain', () => drain(change!, running, steps, meanwhile.abandon?.drain))
    await step('disable', () => disable(change!, running, steps))
    await step('install', () => install(change!, running, steps))
    report.outcome = plan.kind === 'restart' ? 'restarted' : 'reloaded'
  } catch (error) {
    report.error = describeError(error, steps.current)
    report.outcome = change ? 'rolled-back' : 'kept'
    if (change) await rollBack(change, running, steps)
  }
  await steps.try(() => audit(change?.retired ?? [], id, running))
  return finish(steps, cause, running, meanwhile, listenerGrowth)
}
