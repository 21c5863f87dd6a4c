/**
 * `import.meta.resolve` as Node has it, for a module that Node itself has not loaded: Node resolves for its own modules only,
 * and `require.resolve` takes the conditions of `import` on newer lines alone.
 */
import { existsSync, readFileSync, realpathSync } from 'node:fs'
import { createRequire, isBuiltin } from 'node:module'
import { dirname, join } from 'node:path'
import { pathToFileURL } from 'node:url'

/** What `exports` and `imports` of a package.json map to. */
type Target = string | null | Target[] | { [condition: string]: Target }
interface Package {
  folder: string
  json: { name?: string; main?: string; exports?: Target; imports?: { [key: string]: Target } }
}

const CONDITIONS = new Set(['node', 'import', 'default', ...(process.features.require_module ? ['module-sync'] : [])])

/** The URL that an import of `specifier` in `file` would load; the file itself need not exist. */
export function resolveImport(specifier: string, file: string): string {
  if (/^\.{0,2}\/|^\.{1,2}$/.test(specifier)) return urlOf(specifier, file)
  if (isBuiltin(specifier)) return specifier.startsWith('node:') ? specifier : `node:${specifier}`
  if (specifier.startsWith('#')) return imported(specifier, file)
  if (URL.canParse(specifier)) return urlOf(specifier, file)
  const [, name, subpath = ''] = /^((?:@[^/\\%]+\/)?[^/\\%.@][^/\\%]*)(\/.*)?$/.exec(specifier) ?? []
  if (!name) throw failure('ERR_INVALID_MODULE_SPECIFIER', `Invalid module "${specifier}" imported from ${file}`)
  const own = packageOf(file)
  if (own?.json.exports && own.json.name === name) return exported(own, subpath, file)
  for (const folder of foldersAbove(file)) {
    const found = join(folder, 'node_modules', name)
    if (existsSync(found)) return inPackage(packageAt(found), specifier, subpath, file)
  }
  throw failure('ERR_MODULE_NOT_FOUND', `Cannot find package '${name}' imported from ${file}`)
}

function inPackage(found: Package, specifier: string, subpath: string, file: string): string {
  if (found.json.exports) return exported(found, subpath, file)
  // Without `exports` only the main file is looked for, and there `import` does what `require` does.
  if (subpath !== '') return urlOf(`.${subpath}`, join(found.folder, 'package.json'))
  try {
    return pathToFileURL(createRequire(file).resolve(specifier)).href
  } catch (cause) {
    throw failure('ERR_MODULE_NOT_FOUND', `Cannot find package '${specifier}' imported from ${file}`, cause)
  }
}

function exported({ folder, json: { exports } }: Package, subpath: string, file: string): string {
  const isMap = isObject(exports) && Object.keys(exports).some(key => key.startsWith('.'))
  const map = isMap ? exports : { '.': exports ?? null }
  const path = match(map, `.${subpath}`)
  if (path) return urlOf(path, join(folder, 'package.json'))
  const at = `"exports" in ${join(folder, 'package.json')} imported from ${file}`
  const message = subpath
    ? `Package subpath '.${subpath}' is not defined by ${at}`
    : `No "exports" main defined in ${at}`
  throw failure('ERR_PACKAGE_PATH_NOT_EXPORTED', message)
}

function imported(specifier: string, file: string): string {
  const own = packageOf(file)
  const target = own && match(own.json.imports ?? {}, specifier)
  if (own && target) {
    const from = join(own.folder, 'package.json')
    return target.startsWith('./') ? urlOf(target, from) : resolveImport(target, from)
  }
  const message = `Package import specifier "${specifier}" is not defined imported from ${file}`
  throw failure('ERR_PACKAGE_IMPORT_NOT_DEFINED', message)
}

/** What a key leads to: the exact one, else the pattern with the longest beginning. */
function match(map: { [key: string]: Target }, key: string): string | undefined {
  if (Object.hasOwn(map, key) && !key.includes('*')) return targetOf(map[key]!, '') ?? undefined
  const parts = (pattern: string) => pattern.split('*') as [string, string]
  const patterns = Object.keys(map).filter(pattern => pattern.includes('*'))
  const found = patterns
    .filter(
      pattern => key.length >= pattern.length && key.startsWith(parts(pattern)[0]) && key.endsWith(parts(pattern)[1])
    )
    .toSorted((a, b) => parts(b)[0].length - parts(a)[0].length || b.length - a.length)[0]
  if (found === undefined) return undefined
  const [before, after] = parts(found)
  return targetOf(map[found]!, key.slice(before.length, key.length - after.length)) ?? undefined
}

/** `undefined` when no condition holds, so that the next one is tried; `null` when the path is closed. */
function targetOf(target: Target, rest: string): string | null | undefined {
  if (typeof target === 'string') return target.replaceAll('*', () => rest)
  if (target === null) return null
  if (Array.isArray(target)) return target.map(one => targetOf(one, rest)).find(one => typeof one === 'string')
  for (const [condition, one] of Object.entries(target)) {
    const found = CONDITIONS.has(condition) ? targetOf(one, rest) : undefined
    if (found !== undefined) return found
  }
  return undefined
}

function packageOf(file: string): Package | undefined {
  const folder = foldersAbove(file).find(folder => existsSync(join(folder, 'package.json')))
  return folder === undefined ? undefined : packageAt(folder)
}

function foldersAbove(file: string): string[] {
  const folder = dirname(file)
  return folder === file ? [] : [folder, ...foldersAbove(folder)]
}

function packageAt(folder: string): Package {
  const file = join(folder, 'package.json')
  return { folder, json: existsSync(file) ? (JSON.parse(readFileSync(file, 'utf8')) as Package['json']) : {} }
}

function isObject(target: Target | undefined): target is { [key: string]: Target } {
  return typeof target === 'object' && target !== null && !Array.isArray(target)
}

/** Links are followed, as Node does before it loads a file. */
function urlOf(specifier: string, file: string): string {
  const url = new URL(specifier, pathToFileURL(file))
  if (url.protocol !== 'file:' || !existsSync(url)) return url.href
  const slash = url.pathname.endsWith('/') ? '/' : ''
  return pathToFileURL(realpathSync(url) + slash).href + url.search + url.hash
}

function failure(code: string, message: string, cause?: unknown): Error {
  return Object.assign(new Error(message, { cause }), { code })
}
