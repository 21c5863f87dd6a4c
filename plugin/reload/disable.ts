/** Disable: what the old generations have forgotten to end, and what became of their boundaries. */
import type { Change, Closing } from './change.ts'
import { leaveBehind } from './close.ts'
import { isUnloading, isWithin } from '../cordis/fibers.ts'
import { disableStorages } from '../audit/disabling.ts'
import type { ProviderReport } from '../report/report.ts'
import type { Running } from './running.ts'
import type { BoundaryScope, Drained } from '../scope.ts'
import { handOver } from '../audit/shared.ts'
import type { Steps } from './steps.ts'
import { retire, type Target } from './targets.ts'

/** What became of a provider's boundaries. */
export interface BoundaryCounts extends Drained {
  /** Still open at the deadline. */
  abandoned: number
}

/** Runs the `import.meta.hot.dispose` callbacks, and takes away what is left: storages, services, effects. */
export async function disable(change: Change, running: Running, steps: Steps): Promise<void> {
  const { host, fibers, limits, stopped } = running
  const { plan, going, isDrained } = change
  const closing = change.closing!
  const { report } = steps
  steps.failed(closing.failed)
  steps.failed(await host.hot.dispose(plan.modules))
  for (const [i, target] of going.targets.entries()) {
    change.retired.push(disableTarget(target, report.providers[i]!, change, running, steps))
  }
  if (!isDrained) {
    const late = [...going.dependents].filter(isUnloading)
    for (const { name } of late) report.failures.push(`dependent "${name}" has not ended`)
    leaveBehind(closing, fibers)
  }
  steps.failed(await fibers.clearLeftovers(going.dependents, limits.deadline, stopped))
}

/** Disables what a provider has left enabled, unless its drain goes on, and says what became of its boundaries. */
function disableTarget(target: Target, report: ProviderReport, change: Change, running: Running, steps: Steps) {
  const closing = change.closing!
  const abandoned = target.instances.some(({ fiber }) => isWithin(fiber, closing.going))
  Object.assign(report, { boundaries: countBoundaries(target.scopes, closing), abandoned })
  const { own, shared } = handOver(running.ledger.entriesOf(target), target, running, new Set(change.plan.modules))
  const { forgotten, failed } = abandoned ? { forgotten: [], failed: [] } : disableStorages(own)
  steps.failed(failed)
  return { ...retire(target, steps.report.id, own, forgotten, abandoned ? closing.gone : undefined), shared }
}

/** What became of the boundaries of `scopes`. */
function countBoundaries(scopes: BoundaryScope<never>[], { drained }: Closing): BoundaryCounts {
  const counts = { drained: 0, released: 0, abandoned: 0 }
  for (const scope of scopes) {
    if (scope.state !== 'disposed') counts.abandoned += scope.size
    counts.drained += drained.get(scope)?.drained ?? 0
    counts.released += drained.get(scope)?.released ?? 0
  }
  return counts
}
