/**
 * The packages in node_modules that are evaluated like the harness' own modules (`inline`). Vite ignores what is saved in
 * node_modules: of those it has to be told, and of the folder that they are in, which sees one go and come back.
 */
import type { FSWatcher } from 'vite'

/** Watches the inlined packages of one dev server's harness. */
export class Inlined {
  readonly #watcher: FSWatcher
  readonly #patterns: readonly RegExp[]
  readonly #watched = new Set<string>()

  constructor(watcher: FSWatcher, patterns: readonly RegExp[]) {
    this.#watcher = watcher
    this.#patterns = patterns
  }

  /** Watches the packages that modules among `files` belong to. */
  watch(files: Iterable<string>): void {
    for (const file of files) {
      const [folder, parent, scope] = /^(.*\/node_modules)(\/@[^/]+)?\/[^/]+(?=\/)/.exec(file) ?? []
      if (folder === undefined || this.#watched.has(folder)) continue
      if (!this.#patterns.some(pattern => pattern.test(file))) continue
      this.#watched.add(folder)
      const above = scope === undefined ? [parent!] : [parent!, `${parent}${scope}`]
      const { ignored } = this.#watcher.options
      // The options are frozen, and their list is not: `add` makes the watcher read it again.
      const negated = [...above, folder].map(path => `!${escape(path)}`)
      if (Array.isArray(ignored)) ignored.push(...negated, `${negated.at(-1)!}/**`)
      this.#watcher.add(parent!)
    }
  }
}

/** A path as a pattern that matches it. The watcher takes `\` for a separator, so that nothing can be escaped. */
function escape(path: string): string {
  return path.replaceAll(/[()[\]{}!?*+]/g, '?')
}
