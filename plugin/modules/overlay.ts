/** New versions of modules over the running ones, while it is not decided whether they will run. */
import { ModuleCacheMap } from 'vite-node/client'

/** A module as vite-node keeps it. */
export type ModuleRecord = ReturnType<ModuleCacheMap['getByModuleId']>

/** The module cache as it will be: a module that is not invalid is the running one, and nothing is written to those. */
export class Overlay extends ModuleCacheMap {
  readonly #base: ModuleCacheMap
  readonly #invalid: ReadonlySet<string>

  constructor(base: ModuleCacheMap, invalid: ReadonlySet<string>) {
    super()
    this.#base = base
    this.#invalid = invalid
  }

  override getByModuleId(id: string): ModuleRecord {
    const running = !this.has(id) && !this.#invalid.has(id) && this.#base.has(id)
    return running ? this.#base.getByModuleId(id) : super.getByModuleId(id)
  }
}

/** The import chain of the module that was asked for last and has no exports. */
export function chainIn(overlay: Overlay): string[] {
  const failed = [...overlay].findLast(([, { exports }]) => exports === undefined)?.[0]
  const chain: string[] = []
  for (let id = failed; id !== undefined && !chain.includes(id);) {
    chain.push(id)
    const importers: Iterable<string> = overlay.getByModuleId(id).importers ?? []
    id = [...importers].find(importer => overlay.has(importer))
  }
  return chain
}
