/**
 * Which files decide, beside each tsconfig.json itself, how TypeScript is compiled and `paths` are resolved. Vite starts
 * anew for what is named tsconfig.json only: the bases that it extends and the projects that it refers to say as much.
 */
import { existsSync, readFileSync, statSync } from 'node:fs'
import { createRequire } from 'node:module'
import { dirname, isAbsolute, join, resolve } from 'node:path'
import { normalizePath } from 'vite'

/** `"extends": "…"`, `"extends": ["…", "…"]`, and the `"path": "…"` of a reference; a comment that looks like one does no harm. */
const MENTIONS = /"(?:extends|path)"\s*:\s*("[^"\n]*"|\[[^\]]*\])/g

/** Every tsconfig that the files may be compiled with, and what those extend and refer to, also where nothing is there yet. */
export function tsconfigsOf(files: Iterable<string>, option?: string): Set<string> {
  const found = new Set(option === undefined ? [] : [normalizePath(option)])
  const folders = new Set<string>()
  for (const file of files) {
    for (let folder = dirname(file); !folders.has(folder); folder = dirname(folder)) {
      folders.add(folder)
      const tsconfig = join(folder, 'tsconfig.json')
      if (existsSync(tsconfig)) found.add(normalizePath(tsconfig))
    }
  }
  // Iterating a set that grows: a base may have a base.
  for (const tsconfig of found) for (const other of mentionedIn(tsconfig)) found.add(normalizePath(other))
  return found
}

function mentionedIn(tsconfig: string): string[] {
  const isThere = statSync(tsconfig, { throwIfNoEntry: false })?.isFile()
  const mentions = isThere ? readFileSync(tsconfig, 'utf8').matchAll(MENTIONS) : []
  const names = [...mentions].flatMap(([, value]) => [...value!.matchAll(/"([^"]+)"/g)].map(([, name]) => name!))
  return names.flatMap(name => locate(name, tsconfig) ?? [])
}

/** The file that a tsconfig means by a name: a path, to which `.json` or `/tsconfig.json` may have to be added, or a package's. */
function locate(name: string, from: string): string | undefined {
  const candidates = [name, `${name}.json`, `${name}/tsconfig.json`]
  if (name.startsWith('.') || isAbsolute(name)) {
    const paths = candidates.map(candidate => resolve(dirname(from), candidate))
    const isFile = (path: string) => statSync(path, { throwIfNoEntry: false })?.isFile()
    return paths.find(isFile) ?? paths.find(path => path.endsWith('.json'))
  }
  const { resolve: find } = createRequire(from)
  for (const candidate of candidates) {
    try {
      const path = find(candidate)
      if (path.endsWith('.json')) return path
    } catch {
      // The package has no such file, or hides it.
    }
  }
  return undefined
}
