/** Stage: the new versions are evaluated beside the old ones, and every instance finds its successor among their exports. */
import type { Patience } from '../modules/evaluating.ts'
import { type Instance, successor } from '../cordis/fibers.ts'
import type { Host } from '../modules/host.ts'
import type { Reaching, Staged } from './change.ts'

/**
 * Evaluates the new versions.
 * @param frozen - modules of which the code that runs is evaluated, not the newest.
 * @param patience - how long the evaluation is waited for.
 * @throws what the new code throws, and when it exports a provider no more.
 */
export async function stage(
  { modules, roots, accepted, kind }: Reaching,
  instances: Instance[],
  host: Host,
  frozen: ReadonlySet<string>,
  patience: Patience
): Promise<Staged> {
  const staged = await host.stage(modules, roots, frozen, patience)
  try {
    const successors = instances.flatMap(instance => {
      const exports = staged.exports(instance.module)
      const plugin = exports && successor(instance, exports)
      if (plugin) return [{ instance, plugin }]
      // The entry is free to compose the harness without it.
      if (!exports && kind === 'restart') return []
      throw new Error(
        `provider "${instance.fiber.name}": the new version does not export a plugin as "${instance.exported}"`
      )
    })
    const { hot } = host
    const callbacks = accepted.map(({ by, dep }) => hot.handOver(by, dep, () => host.exports(dep)))
    callbacks.push(hot.pruner(staged.unused))
    const accept = async () => {
      const thrown: unknown[] = []
      for (const call of callbacks) thrown.push(...(await call()))
      return thrown
    }
    return { ...staged, successors, accept }
  } catch (error) {
    await staged.drop()
    throw error
  }
}
