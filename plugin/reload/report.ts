/** The report of a reload: opened when it begins, and complete when it ends. */
import { timestamp } from '../guard/clock.ts'
import { tell } from './parking.ts'
import { isActive } from '../cordis/fibers.ts'
import type { Cause } from './plan.ts'
import { isSuccess, type ProviderReport, type ReloadReport } from '../report/report.ts'
import type { Meanwhile, Running } from './running.ts'
import type { Steps } from './steps.ts'
import type { Going } from './targets.ts'
import { within } from '../guard/within.ts'

/** The report of a reload that begins. */
export function openReport(id: number, { files, modules }: Cause): ReloadReport {
  return {
    type: 'reload',
    id,
    time: timestamp(),
    cause: [...files, ...modules],
    outcome: 'ignored',
    failures: [],
    providers: [],
    ms: {}
  }
}

/** What is replaced, as it is before. */
export function providerReports({ targets }: Going): ProviderReport[] {
  return targets.map(({ module, name, generation, instances }) => ({
    module,
    name,
    from: generation,
    to: generation,
    instances: instances.length,
    active: instances.filter(({ fiber }) => isActive(fiber)).length,
    boundaries: { drained: 0, released: 0, abandoned: 0 },
    abandoned: false
  }))
}

/** Completes a report: what runs now, and what was heard meanwhile. The harness is told, and may add what it throws. */
export async function finish(
  { report, failed }: Steps,
  cause: Cause,
  { providers, fibers, limits, stopped }: Running,
  { heard }: Meanwhile,
  listenerGrowth: () => string[]
): Promise<ReloadReport> {
  if (cause.retries && !isSuccess(report)) report.retried = true
  if (report.outcome !== 'ignored' && report.outcome !== 'kept') {
    for (const provider of report.providers) {
      const { generation, instances } = providers.of(provider.module)
      provider.to = generation || null
      provider.active = instances.filter(({ fiber }) => isActive(fiber)).length
    }
    report.failures.push(...listenerGrowth())
    const told = tell(fibers, 'harness-hmr/after-reload', () => report)
    if (await within(limits.deadline, told, stopped)) failed(await told)
    else failed([new Error('harness-hmr/after-reload: a listener has not ended')])
  }
  // Cordis logs what we were told already.
  const known = [report.error?.message, ...report.failures]
  report.failures.push(...(heard?.() ?? []).filter(message => !known.includes(message)))
  report.time = timestamp()
  return report
}
