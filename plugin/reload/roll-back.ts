/** The old versions, in place again. What the new ones created goes the way of every retired generation. */
import type { Change, Replacement } from './change.ts'
import { goneOrLeft } from './close.ts'
import { disableStorages } from '../audit/disabling.ts'
import { successor } from '../cordis/fibers.ts'
import type { Stage } from '../modules/host.ts'
import { restore } from './install.ts'
import type { Running } from './running.ts'
import { handOver } from '../audit/shared.ts'
import type { Steps } from './steps.ts'
import { retire, serveAgain } from './targets.ts'

/**
 * Undoes a change, each instance by itself. Never throws: what does not come back is a failure of the report, and its place
 * is kept for the next version.
 */
export async function rollBack(change: Change, running: Running, steps: Steps): Promise<void> {
  const { stopped } = running
  const { staged, going, closing, plan } = change
  await steps.try(() => retireNew(change, running, steps))
  await steps.try(async () => steps.failed(await staged.revert()))
  // Nothing was taken down; or what came back now would have to go at once.
  if (!closing || stopped.aborted) return
  // The step that threw may have been one before the drain.
  await steps.try(() => goneOrLeft(closing, running))
  const again = await steps.try(() => evaluateAgain(change, running))
  const replacements = going.instances
    .filter(({ fiber }) => fiber.uid === null)
    .map((instance): Replacement => ({ instance, plugin: oldPlugin(instance, again) }))
  await steps.try(async () => {
    const { vacant, failures } = await restore(replacements, change, running)
    steps.failed(failures)
    // Who has not ended in time may be what stands in the way.
    if (vacant.length > 0 && closing.going.size > 0) void closing.gone.then(() => running.onFree([...plan.modules]))
  })
  // Unless it was evaluated again.
  if (!again) serveAgain(change.retired)
}

/** What the new versions have created has to be gone too. */
function retireNew({ going, created, plan }: Change, running: Running, steps: Steps): void {
  const { host, ledger, auditor } = running
  for (const { module, name, generation } of going.targets) {
    const version = host.version(host.exports(module))
    // They were never in place.
    if (version === generation) continue
    const failed = { module, name, generation: version }
    const { own, shared } = handOver(ledger.entriesOf(failed), failed, running, new Set(plan.modules))
    const disabled = disableStorages(own)
    steps.failed(disabled.failed)
    const objects = created.get(module) ?? []
    auditor.add({ ...retire({ ...failed, objects }, steps.report.id, own, disabled.forgotten), shared })
  }
}

/** What the old code has closed, in `import.meta.hot.dispose` or in a disposer, is opened only by evaluating it again. */
async function evaluateAgain({ plan }: Change, { host, limits, stopped }: Running): Promise<Stage> {
  const again = await host.stage(plan.modules, plan.roots, plan.modules, { ms: limits.deadline, signal: stopped })
  again.commit()
  return again
}

function oldPlugin(instance: Replacement['instance'], again: Stage | undefined): unknown {
  const exports = again?.exports(instance.module)
  return (exports && successor(instance, exports)) ?? instance.plugin
}
