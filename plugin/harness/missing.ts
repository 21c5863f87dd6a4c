/** What is imported and is not there, so that a file that is created can be told to be the one. */
import { existsSync } from 'node:fs'
import { extname, isAbsolute, join } from 'node:path'
import { normalizePath } from 'vite'

/** The paths that were imported and are not there. */
export class Missing {
  readonly #root: string
  readonly #stems = new Set<string>()

  constructor(root: string) {
    this.#root = root
  }

  /** There is nothing at an imported path, which is absolute or starts at the root. */
  add(path: string): void {
    const file = path.replace(/[?#].*$/, '')
    for (const at of isAbsolute(file) ? [file, join(this.#root, file)] : [join(this.#root, file)]) {
      if (!existsSync(at)) this.#stems.add(normalizePath(at.slice(0, at.length - extname(at).length)))
    }
  }

  /** Whether a file may be what an import asks for: with any ending, or as a file of a folder of that name. */
  has(file: string): boolean {
    return [...this.#stems].some(stem => file.startsWith(`${stem}.`) || file.startsWith(`${stem}/`))
  }

  clear(): void {
    this.#stems.clear()
  }
}
