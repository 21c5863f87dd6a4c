/**
 * Which files decide, beside each tsconfig.json itself, how TypeScript is compiled and `paths` are resolved. Vite
 * restarts for what is named tsconfig.json only: the bases that it extends and the projects that it refers to say as much.
 */
import { existsSync, readFileSync, statSync } from 'node:fs'
import { createRequire } from 'node:module'
import { dirname, isAbsolute, join, resolve } from 'node:path'
import { type DevEnvironment, type FSWatcher, normalizePath } from 'vite'
import { clearTimeout, setTimeout } from '../guard/clock.ts'
import { signatureOf } from '../modules/signature.ts'

/** `"extends": "…"`, `"extends": ["…", "…"]`, and the `"path": "…"` of a reference; a comment that looks like one does no harm. */
const MENTIONS = /"(?:extends|path)"\s*:\s*("[^"\n]*"|\[[^\]]*\])/g

/** Milliseconds after which nobody is still writing a file that was saved; a watcher is blind for half of that. */
const LOOK_AGAIN = 100

/** Makes Vite restart when any of the tsconfigs of one dev server's harness was saved. */
export class TsconfigSaves {
  readonly #watcher: FSWatcher
  readonly #env: DevEnvironment
  readonly #timers = new Set<NodeJS.Timeout>()

  constructor(watcher: FSWatcher, env: DevEnvironment) {
    this.#watcher = watcher
    this.#env = env
  }

  /** Watches them: in a workspace they are often outside of the root, where Vite watches only what it has read itself. */
  watch(): void {
    this.#watcher.add([...this.#all()].filter(file => existsSync(file)))
  }

  /** A file was saved, created or deleted. */
  notice(file: string): void {
    if (!file.endsWith('.json') || !this.#all().has(file)) return
    if (!isTsconfig(file)) this.#tell()
    const before = signatureOf(file)
    const timer = setTimeout(() => {
      this.#timers.delete(timer)
      if (signatureOf(file) === before) return
      if (isTsconfig(file)) this.#tell(file)
      else this.notice(file)
    }, LOOK_AGAIN)
    this.#timers.add(timer.unref())
  }

  /** Notices nothing more. */
  stop(): void {
    for (const timer of this.#timers) clearTimeout(timer)
  }

  /** What Vite does for a tsconfig.json is what has to be done for its base, and it goes by nothing but the name. */
  #tell(saved = [...this.#all()].find(isTsconfig)): void {
    this.#watcher.emit('change', saved ?? join(this.#env.config.root, 'tsconfig.json'))
  }

  #all(): Set<string> {
    return tsconfigsOf(this.#env.moduleGraph.fileToModulesMap.keys(), this.#env.config.tsconfig)
  }
}

function isTsconfig(file: string): boolean {
  return file.endsWith('/tsconfig.json')
}

/** Every tsconfig that the files may be compiled with, and what those extend and refer to, also where nothing is there yet. */
function tsconfigsOf(files: Iterable<string>, option?: string): Set<string> {
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
  return names.flatMap(name => findConfig(name, tsconfig) ?? [])
}

/** The file that a tsconfig means by a name: a path, to which `.json` or `/tsconfig.json` may have to be added, or a package's. */
function findConfig(name: string, from: string): string | undefined {
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
