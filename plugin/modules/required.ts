/** What Node keeps of the files that were required: a module that is evaluated again has to get their newest content. */
import { createRequire } from 'node:module'
import { normalize } from 'node:path'
import { types } from 'node:util'

const { cache } = createRequire(import.meta.url)

/** Of the files that were required, those that Node cannot load again: it keeps ES modules for good. */
export function keptByNode(files: Iterable<string>): string[] {
  return [...files].filter(file => types.isModuleNamespaceObject(cache[normalize(file)]?.exports))
}

/** Makes Node load the required ones among `files` again; whoever has the old ones keeps them. Returns how to undo it. */
export function requireAnew(files: Iterable<string>): () => void {
  const old = [...files].map(file => [normalize(file), cache[normalize(file)]] as const)
  for (const [file] of old) delete cache[file]
  return () => {
    for (const [file, module] of old) {
      if (module) cache[file] = module
      else delete cache[file]
    }
  }
}
