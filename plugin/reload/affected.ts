/** Which modules and providers a change reaches. Pure: no vite, no cordis. */

import { type Reason, reason } from '../report/report.ts'

/** What the walk needs to know of the running harness; modules are named by id. */
export interface ModuleGraph {
  /** The module that composes the harness. */
  entry: string
  /** The modules that import `id`. */
  importers(id: string): Iterable<string>
  /** Whether `importer` has accepted new versions of `dep` (`import.meta.hot.accept`); of itself when they are the same. */
  accepts(importer: string, dep: string): boolean
  /** Whether the module defines and exports a plugin that is registered. */
  isProvider(id: string): boolean
  /** Whether `importer`'s own plugin is the parent of a fiber of `provider`'s plugins. */
  composes(importer: string, provider: string): boolean
}

/** A new version that is handed over instead of replacing its importer. */
export interface Acceptance {
  by: string
  dep: string
}

/** What a change asks for. */
export type Plan =
  | { kind: 'reload'; modules: Set<string>; providers: Set<string>; accepted: Acceptance[] }
  | { kind: 'restart'; reason: Reason }
  | { kind: 'ignored'; reason: Reason }

/**
 * Walks from the changed modules up to the providers.
 *
 * ```
 *   entry ······ applies ······▶ agents.ts        agents.ts is replaced, the entry is not re-run
 *                                    ▲
 *   loop.ts ── extends a class of ───┘             loop.ts is a provider that uses its code: replaced too
 *                                    ▲
 *                              initiators.ts       changed
 * ```
 * Below a provider every path must end at one, else the entry itself would have to run again: a restart. Past a provider
 * only what leads to another provider is taken along, and never through composition.
 */
export function affected(changed: Iterable<string>, graph: ModuleGraph): Plan {
  const modules = new Set<string>()
  const providers = new Set<string>()
  const accepted: Acceptance[] = []
  const queue = [...changed].map(id => [id])
  for (const path of queue) {
    const id = path.at(-1)!
    if (modules.has(id)) continue
    modules.add(id)
    if (graph.accepts(id, id)) accepted.push({ by: id, dep: id })
    else if (id === graph.entry) return { kind: 'restart', reason: restartReason(path) }
    if (graph.isProvider(id) && id !== graph.entry) providers.add(id)
    else if (!graph.accepts(id, id)) {
      for (const importer of graph.importers(id)) {
        if (graph.accepts(importer, id)) accepted.push({ by: importer, dep: id })
        else queue.push([...path, importer])
      }
    }
  }
  // Iterating a set that grows: a provider that is found here is walked from as well.
  for (const provider of providers) usersOf(provider, graph, modules, providers, accepted)
  if (providers.size === 0 && accepted.length === 0) return { kind: 'ignored', reason: reason('aside') }
  // Who is replaced anyway has its new version by importing it.
  const handed = accepted.filter(({ by, dep }) => by === dep || !modules.has(by))
  return { kind: 'reload', modules, providers, accepted: handed }
}

/** Adds the providers that use `provider`'s code, and the modules between. */
function usersOf(
  provider: string,
  graph: ModuleGraph,
  modules: Set<string>,
  providers: Set<string>,
  accepted: Acceptance[]
): void {
  const below = new Map<string, string[]>([[provider, []]])
  const found: string[] = []
  for (const [id] of below) {
    if (id !== provider && graph.isProvider(id)) {
      found.push(id)
      continue
    }
    for (const importer of graph.importers(id)) {
      if (id === provider && graph.accepts(importer, id)) {
        accepted.push({ by: importer, dep: id })
        continue
      }
      if (importer === graph.entry || graph.composes(importer, provider)) continue
      const known = below.get(importer)
      if (known) known.push(id)
      else below.set(importer, [id])
    }
  }
  for (const id of found) providers.add(id)
  // Back down from the users that were found; `found` grows by what lies between.
  for (const id of found) {
    modules.add(id)
    for (const next of below.get(id) ?? []) if (!modules.has(next) && !found.includes(next)) found.push(next)
  }
}

function restartReason(path: string[]): Reason {
  return path.length === 1 ? reason('entry') : reason('reached', path.join(' → '))
}
