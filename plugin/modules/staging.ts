/** From new versions that were evaluated beside the running ones to the ones that run, and back. */
import type { ModuleCacheMap } from 'vite-node/client'
import { normalizeModuleId } from 'vite-node/utils'
import { read } from '../guard/contain.ts'
import type { Exports } from './exports.ts'
import type { LiveExports } from './live-exports.ts'
import type { ModuleRecord, Overlay } from './overlay.ts'

type Next = Parameters<ModuleCacheMap['setByModuleId']>[1] | undefined

/** The running modules, as far as putting others in their place goes. */
export interface InPlace {
  modules: ModuleCacheMap
  live: LiveExports
  /** The modules that import `id`, by what Vite read in the sources. */
  importers(id: string): string[] | undefined
  /** Whether somebody who is no module uses it. */
  isAskedFor(id: string): boolean
}

/** The modules that nothing imports once the overlay is in place. */
export function unusedAfter(
  overlay: Overlay,
  invalid: ReadonlySet<string>,
  { modules, importers, isAskedFor }: InPlace
): string[] {
  const unused = new Set<string>()
  const isUnused = (id: string) => {
    const running = record(modules, id)
    if (overlay.has(id) || unused.has(id) || running?.code === undefined) return false
    if (!invalid.has(id) && isAskedFor(id)) return false
    // An import that is not reached yet (`import()`) is not in our records, but Vite knows it; what that takes for external,
    // a package that is inlined here, it does not know.
    const recorded = [...running.importers].filter(
      other => !overlay.has(other) || importsOf(other, overlay).includes(id)
    )
    return [...(importers(id) ?? []), ...recorded].every(
      other => unused.has(other) || (invalid.has(other) && !overlay.has(other))
    )
  }
  const queue = [...invalid].flatMap(id => [id, ...importsOf(id, modules)])
  for (const id of queue) {
    if (!isUnused(id)) continue
    unused.add(id)
    queue.push(...importsOf(id, modules))
  }
  return [...unused]
}

function importsOf(id: string, modules: ModuleCacheMap): string[] {
  return [...(record(modules, id)?.imports ?? [])].map(normalizeModuleId)
}

/** Makes the overlay's modules the running ones; importers that were left as they are see the new exports. */
export function putInPlace(
  overlay: Overlay,
  invalid: ReadonlySet<string>,
  unused: string[],
  { modules, live }: InPlace
): (() => void)[] {
  const undo: (() => void)[] = []
  const put = (id: string, next: Next) => {
    const old = record(modules, id)
    relink(modules, id, old?.imports, next?.imports)
    if (next) modules.setByModuleId(id, next)
    else modules.deleteByModuleId(id)
    undo.push(() => {
      relink(modules, id, next?.imports, old?.imports)
      if (old) modules.setByModuleId(id, old)
      else modules.deleteByModuleId(id)
    })
    if (next?.exports) undo.push(live.replace(id, old?.exports, next.exports))
  }
  // What the new code does not import, or not yet: an `import()` of it evaluates the newest.
  for (const id of new Set([...invalid, ...unused])) if (!overlay.has(id)) put(id, undefined)
  for (const [id, next] of overlay) {
    for (const importer of record(modules, id)?.importers ?? []) {
      if (!invalid.has(importer)) next.importers?.add(importer)
    }
    put(id, next)
  }
  return undo
}

/** Lets running modules forget that the overlay's have imported them. */
export function forget(overlay: Overlay, modules: ModuleCacheMap): void {
  for (const [id, { imports }] of overlay) relink(modules, id, imports, record(modules, id)?.imports)
}

/** Tells what `id` imports who imports it now. */
function relink(modules: ModuleCacheMap, id: string, from: Iterable<string> = [], to: Iterable<string> = []): void {
  const old = new Set([...from].map(normalizeModuleId))
  const next = new Set([...to].map(normalizeModuleId))
  for (const dep of old) if (!next.has(dep)) record(modules, dep)?.importers.delete(id)
  for (const dep of next) if (!old.has(dep)) record(modules, dep)?.importers.add(id)
}

/** A running module; asking the map itself would make an entry for it. */
export function record(modules: ModuleCacheMap, id: string): ModuleRecord | undefined {
  return modules.has(id) ? modules.getByModuleId(id) : undefined
}

/** The exports that can be read; one that a cycle has not reached yet, or whose getter throws, is `undefined`. */
export function names(exports: Exports): [name: string, value: unknown][] {
  return Object.keys(exports).map(name => [name, read(exports, name)])
}
