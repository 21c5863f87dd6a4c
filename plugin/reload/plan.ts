/** From what was saved to what has to be evaluated again: the affected walk, over the modules and fibers that run. */
import { cleanUrl } from 'vite-node/utils'
import { affected, type Acceptance } from './affected.ts'
import type { Providers } from '../cordis/providers.ts'
import type { Host } from '../modules/host.ts'
import { type Reason, reason } from '../report/report.ts'

/** What asks for a reload. */
export interface Cause {
  /** Absolute paths of files that were saved. */
  files: string[]
  /** Ids of modules that are replaced although their code is the same. */
  modules: string[]
  /** Files whose newest content is known not to work: what runs of them goes on, also in a new evaluation. */
  frozen: string[]
  /** Whether the same is tried once more, with fewer files, when it fails. */
  retries: boolean
}

/** The modules to evaluate again, and those to import for it; a restart evaluates everything by importing the entry. */
export type ReloadPlan =
  | { kind: 'reload' | 'restart'; modules: Set<string>; roots: string[]; accepted: Acceptance[]; reason?: Reason }
  | { kind: 'ignored'; reason: Reason }

/** What a plan is made from. */
export interface Planning {
  /** Module id of the entry. */
  entry: string
  host: Host
  providers: Providers
}

/** Finds what a cause reaches. Only modules whose code has changed count, unless they are named. */
export async function planOf({ files, modules, frozen }: Cause, planning: Planning): Promise<ReloadPlan> {
  const { host } = planning
  // What goes on with the code that runs is not replaced by it: Vite cannot read any more that it only imports a file.
  const goOn = frozenOf({ files, frozen }, host)
  const ids = files.flatMap(file => host.modulesOf(file)).filter(id => !goOn.has(id))
  if (ids.length === 0 && modules.length === 0) return { kind: 'ignored', reason: reason('unused') }
  const changed = modules.filter(id => host.exports(id))
  for (const id of ids) {
    if (!(await host.isChanged(id))) continue
    const finders = await host.findersOfNext(id)
    changed.push(...(finders.length > 0 ? finders : [id]))
  }
  if (changed.length === 0) return { kind: 'ignored', reason: reason('same') }
  for (;;) {
    const plan = reach(changed, planning)
    const unheard = plan.kind === 'reload' ? await missedBelow(plan.modules, goOn, host) : []
    if (unheard.length === 0) return plan
    changed.push(...unheard)
  }
}

/** The modules that go on with the code that runs; one that was saved itself does not, though it loads a file that does. */
export function frozenOf({ files, frozen }: Pick<Cause, 'files' | 'frozen'>, host: Host): Set<string> {
  const goOn = frozen.flatMap(file => host.modulesOf(file))
  return new Set(goOn.filter(id => !files.includes(cleanUrl(id))))
}

/**
 * What `modules` import, in the end, and what has changed without a word of the watcher: a branch switch writes many files
 * at once. Only there, so that a save does not cost more the more there is that it does not touch.
 */
async function missedBelow(modules: ReadonlySet<string>, goOn: ReadonlySet<string>, host: Host): Promise<string[]> {
  const below = new Set(modules)
  for (const id of below) for (const dep of host.imports(id)) below.add(dep)
  const missed: string[] = []
  for (const id of below) {
    if (!modules.has(id) && !goOn.has(id) && host.isStale(id) && (await host.isChanged(id))) missed.push(id)
  }
  return missed
}

/** What a change of these modules would reach. */
export function reach(changed: string[], { entry, host, providers }: Planning): ReloadPlan {
  const fibersOf = (id: string) => providers.of(id).instances.map(({ fiber }) => fiber)
  const plan = affected(changed, {
    entry,
    importers: id => host.importers(id),
    accepts: (importer, dep) => host.hot.accepts(importer, dep),
    isProvider: id => fibersOf(id).length > 0,
    composes: (importer, provider) => {
      const parents = new Set(fibersOf(importer))
      return fibersOf(provider).some(({ parent }) => parents.has(parent.fiber))
    }
  })
  switch (plan.kind) {
    case 'ignored':
      return plan
    case 'reload': {
      // Where a fresh start would come to them from what stays: a cycle is entered at the same module.
      const entered = [...plan.modules].filter(id => host.importers(id).some(other => !plan.modules.has(other)))
      const roots = new Set([...entered, ...plan.providers, ...plan.accepted.map(({ dep }) => dep)])
      return { ...plan, roots: host.inOrder(roots, entry) }
    }
    case 'restart':
      return { ...plan, modules: new Set(host.modules()), roots: [entry], accepted: [] }
    default:
      return plan satisfies never
  }
}
