/** The repository's packages, for a temporary folder. */
import { mkdirSync, readdirSync, symlinkSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'

const packages = fileURLToPath(new URL('../node_modules', import.meta.url))

/** Makes the repository's packages resolve in a folder. Each is a link: what Vite caches in `node_modules` is the folder's own. */
export function linkPackages(folder: string): void {
  mkdirSync(join(folder, 'node_modules'), { recursive: true })
  for (const name of readdirSync(packages)) {
    const scoped = name.startsWith('@') ? readdirSync(join(packages, name)).map(other => join(name, other)) : [name]
    if (name.startsWith('@')) mkdirSync(join(folder, 'node_modules', name), { recursive: true })
    for (const one of scoped) {
      if (!one.startsWith('.')) symlinkSync(join(packages, one), join(folder, 'node_modules', one), 'junction')
    }
  }
}
