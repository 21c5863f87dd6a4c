/** Who is replaced: the provider modules of a plan, their live instances, and what must be gone afterwards. */
import { basename, extname } from 'node:path'
import type { Retired } from './audit.ts'
import { scopesOf } from './drain.ts'
import { type Fiber } from './cordis.ts'
import { type Fibers, type Instance, isWithin } from './fibers.ts'
import type { Generation } from './creators.ts'
import type { Host } from './host.ts'
import type { Ledger, LedgerEntry } from './ledger.ts'
import type { Resources } from './resources.ts'
import type { BoundaryScope } from './scope.ts'

/** One module that is replaced, as it runs before the reload. */
export interface Target {
  module: string
  /** The service that it provides, else its plugin's name, else its file's. */
  name: string
  generation: number
  instances: Instance[]
  scopes: BoundaryScope<never>[]
  /** Per instance, its fiber and services: strong references would be what keeps them. */
  objects: WeakRef<object>[][]
}

/** The modules of a plan that have live instances or storages of their own. */
export function targetsOf(modules: Iterable<string>, host: Host, fibers: Fibers, ledger: Ledger): Target[] {
  return [...modules].flatMap(module => {
    const exports = host.exports(module)
    const generation = host.version(exports)
    const instances = fibers.instances(module, host.ownExports(module))
    const storages = ledger.entriesOf({ module, generation })
    if (instances.length === 0 && storages.length === 0) return []
    const objects = instances.map(({ fiber }) => fibers.objects(fiber).map(object => new WeakRef(object)))
    return [
      {
        module,
        name: nameOf(module, instances[0]?.fiber, fibers),
        generation,
        instances,
        scopes: scopesOf(storages),
        objects
      }
    ]
  })
}

/**
 * The instances that are disposed and replaced by hand, oldest first: those whose parent is neither replaced itself nor
 * taken down with a service, since such a parent applies its children again.
 */
export function topMost(targets: Target[], dependents: ReadonlySet<Fiber>): Instance[] {
  const all = targets.flatMap(({ instances }) => instances)
  const going = new Set(all.map(({ fiber }) => fiber))
  return all
    .filter(({ fiber }) => !isWithin(fiber.parent.fiber, going) && !isWithin(fiber.parent.fiber, dependents))
    .toSorted((a, b) => (a.fiber.uid ?? 0) - (b.fiber.uid ?? 0))
}

/** What the audit has to find gone of a generation that was replaced. */
export function retire(
  { module, name, generation, objects }: Pick<Target, 'module' | 'name' | 'generation' | 'objects'>,
  reload: number,
  storages: LedgerEntry[],
  forgotten: LedgerEntry[],
  abandoned?: Promise<unknown>
): Retired {
  return {
    reload,
    module,
    name,
    generation,
    instances: objects,
    storages,
    forgotten: forgotten.flatMap(({ created }) => created ?? []),
    abandoned,
    serves: false
  }
}

/** The modules of a plan that no provider comes from, as they ran before: they may have left something running too. */
export function helpersOf(modules: Iterable<string>, targets: Target[], host: Host): Generation[] {
  const known = new Set(targets.map(({ module }) => module))
  return [...modules].flatMap(module =>
    known.has(module) ? [] : [{ module, generation: host.version(host.exports(module)) }]
  )
}

/** Those helpers that have: a timer at the level of the module, say. */
export function leftoversOf(helpers: Generation[], reload: number, resources: Resources): Retired[] {
  return helpers.flatMap(helper => {
    const name = basename(helper.module, extname(helper.module))
    return resources.leftBy(helper).length > 0 ? [retire({ ...helper, name, objects: [] }, reload, [], [])] : []
  })
}

function nameOf(module: string, fiber: Fiber | undefined, fibers: Fibers): string {
  return (fiber && (fibers.provided(fiber)[0]?.name ?? fiber.runtime?.name)) || basename(module, extname(module))
}
