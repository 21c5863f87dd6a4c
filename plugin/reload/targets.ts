/** Who is replaced: the provider modules of a plan, their live instances, and what must be gone afterwards. */
import type { Retired } from '../audit/audit.ts'
import { isSameGeneration } from '../audit/creators.ts'
import { disableStorages } from '../audit/disabling.ts'
import { type Fiber } from '../cordis/cordis.ts'
import type { Provider } from '../cordis/providers.ts'
import { type Fibers, type Instance, isActive, isPlace, isWithin } from '../cordis/fibers.ts'
import type { LedgerEntry } from '../audit/ledger.ts'
import type { Running } from './running.ts'
import type { BoundaryScope } from '../scope.ts'
import type { Location } from '../report/script.ts'
import { leaveShared } from '../audit/shared.ts'

/** One module that is replaced, as it runs before the reload. */
export interface Target extends Provider {
  scopes: BoundaryScope<never>[]
  /** Per instance, its fiber and services: strong references would be what keeps them. */
  objects: WeakRef<object>[][]
}

/** Those among `modules` that have live instances or storages of their own. */
export function targetsOf(modules: Iterable<string>, { providers, fibers, ledger }: Running): Target[] {
  return [...modules].flatMap(module => {
    const provider = providers.of(module)
    const storages = ledger.entriesOf(provider)
    if (provider.instances.length === 0 && storages.length === 0) return []
    return [{ ...provider, scopes: scopesOf(storages), objects: objectsOf(provider.instances, fibers) }]
  })
}

/** What has to be gone of instances. Of those that are vacant nothing is there: it was audited when they became so. */
export function objectsOf(instances: Instance[], fibers: Fibers): WeakRef<object>[][] {
  return instances.filter(({ fiber }) => !isPlace(fiber)).map(({ fiber }) => fibers.refs(fiber))
}

/** What a plan takes down. */
export interface Going {
  targets: Target[]
  /** The instances that are disposed and replaced by hand, oldest first. */
  instances: Instance[]
  /** Fibers that run on a service of theirs, and go and come back by themselves. */
  dependents: Set<Fiber>
  scopes: BoundaryScope<never>[]
  /** Which of all these are active now, and have to be so again. */
  active: Set<Fiber>
}

/** What a plan takes down, as it runs now. */
export function goingOf(modules: Iterable<string>, running: Running): Going {
  const { fibers } = running
  const targets = targetsOf(modules, running)
  const going = targets.flatMap(({ instances }) => instances.map(({ fiber }) => fiber))
  const dependents = fibers.dependents(going)
  return {
    targets,
    instances: topMost(targets, dependents),
    dependents,
    scopes: targets.flatMap(target => target.scopes),
    active: new Set([...going, ...dependents].filter(isActive))
  }
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
    forgotten: placesOf(forgotten),
    shared: [],
    abandoned,
    serves: false
  }
}

/**
 * Generations that do not run, and of which something runs that nobody audits: helpers that were replaced with a provider,
 * modules that nothing imports any more, new versions that were evaluated and not taken, and providers whose old code was
 * called once more by somebody who still has it. To be asked between two reloads, when nothing is staged.
 */
function straysOf(reload: number, { host, providers, leaks, auditor }: Running): Retired[] {
  const audited = auditor.unsettled().filter(({ serves }) => !serves)
  return leaks.starters().flatMap(({ module, generation }) => {
    const isAudited = audited.some(other => isSameGeneration(other, { module, generation }))
    if (isAudited || host.runs(module, generation)) return []
    return [retire({ module, name: providers.of(module).name, generation, objects: [] }, reload, [], [])]
  })
}

/** A service that a running fiber provides too is not the retired generation's: both were given it. */
function keepShared(retired: Retired, fibers: Fibers): void {
  const shared = new Set([...fibers.all()].flatMap(fiber => fibers.provided(fiber)).map(({ value }) => value))
  retired.instances = retired.instances.map(refs => refs.filter(ref => !shared.has(ref.deref())))
}

/** Disables, after the end of a drain that was abandoned, what the generation has not disabled itself by then. */
function disableLate(retired: Retired, running: Running): void {
  retired.abandoned = retired.abandoned?.then(() => {
    leaveShared(retired, running)
    retired.forgotten.push(...placesOf(disableStorages(retired.storages).forgotten))
  })
}

/** The old code serves again, in new instances, and its storages are theirs. */
export function serveAgain(retired: Retired[]): void {
  for (const generation of retired) Object.assign(generation, { storages: [], serves: true })
}

function placesOf(entries: LedgerEntry[]): Location[] {
  return entries.flatMap(({ created }) => created ?? [])
}

/** The live scopes among storages. */
function scopesOf(entries: LedgerEntry[]): BoundaryScope<never>[] {
  return entries.flatMap(({ scope }) => {
    const alive = scope?.deref()
    return alive && alive.state !== 'disposed' ? [alive] : []
  })
}

/** Hands over what has to be gone; with that, whatever a version has started that was evaluated and does not run. */
export function audit(retired: Retired[], id: number, running: Running): void {
  for (const generation of retired) {
    keepShared(generation, running.fibers)
    if (!generation.serves) disableLate(generation, running)
    running.auditor.add(generation)
  }
  for (const stray of straysOf(id, running)) running.auditor.add(stray)
}
