/**
 * Files that Node itself loads on behalf of one of our modules: what it requires, and the workers and processes that it starts
 * from `new URL('./job.mjs', import.meta.url)`. They are not our modules, but a save of one is a save of the module.
 */
import { createHash } from 'node:crypto'
import { readFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import { extname } from 'node:path'
import { fileURLToPath, pathToFileURL } from 'node:url'
import { normalizePath } from 'vite'
import { attempt } from '../guard/contain.ts'
import { signatureOf } from './signature.ts'

/** One such file, as it was when the module was evaluated. */
interface NodeFile {
  /** Of its content; `undefined` where there was no such file. */
  hash: string | undefined
  signature: string | undefined
  /** The files that it loads in turn. */
  loads: string[]
}

/** By file, those that a module loads in the end. */
export type NodeFiles = ReadonlyMap<string, NodeFile>

/** What reads or writes data is no code: a harness may write a `new URL('./state.json', import.meta.url)` itself. */
const CODE = /^\.[cm]?[jt]s$/
const META = String.raw`(?:import\.meta|__vite_ssr_import_meta__)\.url`
const TEXT = String.raw`(['"\x60])((?:(?!\1)[^\n$])+)\1`
/** `new URL('./job.mjs', import.meta.url)` */
const BY_URL = new RegExp(String.raw`\bnew URL\(\s*${TEXT}\s*,\s*${META}\s*,?\s*\)`, 'g')
/** `import './a.mjs'`, `export … from './a.mjs'`, `import('./a.mjs')`: asked of files that Node loads only. */
const BY_IMPORT = new RegExp(String.raw`\b(?:from|import)\s*\(?\s*${TEXT}`, 'g')
/** `const load = createRequire(…)` */
const REQUIRERS = /([\w$]+)\s*=\s*[^=;\n]{0,60}\bcreateRequire\)?\(/g

/** The files that the code of a module makes Node load, directly and in turn; those of packages are not followed. */
export function nodeFilesOf(file: string, code: string): NodeFiles {
  const found = new Map<string, NodeFile>()
  const queue = loadedBy(file, code)
  for (const next of queue) {
    if (found.has(next) || next === normalizePath(file)) continue
    const known = read(next)
    found.set(next, known)
    queue.push(...known.loads)
  }
  return found
}

/** Those of `files` whose content is another one now, and those that load them. */
export function changedOf(files: NodeFiles): Set<string> {
  const isOther = ([file, { hash, signature }]: [string, NodeFile]) =>
    signatureOf(file) !== signature && read(file).hash !== hash
  const changed = new Set([...files].filter(isOther).map(([file]) => file))
  for (let size = -1; size !== changed.size;) {
    size = changed.size
    for (const [file, { loads }] of files) if (loads.some(other => changed.has(other))) changed.add(file)
  }
  return changed
}

/** By file, so that one that many modules load is read once for each content. */
const cache = new Map<string, NodeFile>()

function read(file: string): NodeFile {
  const signature = signatureOf(file)
  const known = cache.get(file)
  if (known && signature !== undefined && known.signature === signature) return known
  const content = attempt(
    () => readFileSync(file),
    () => undefined
  )
  const hash = content && createHash('sha1').update(content).digest('base64')
  const loads = content && CODE.test(extname(file)) ? loadedBy(file, content.toString(), BY_IMPORT) : []
  const next = { hash, signature, loads }
  cache.set(file, next)
  return next
}

function loadedBy(file: string, code: string, imports?: RegExp): string[] {
  const requirers = ['require', ...[...code.matchAll(REQUIRERS)].map(([, name]) => name!.replaceAll('$', '\\$'))]
  const byRequire = new RegExp(
    String.raw`(?:(?<![\w$.])(?:${requirers.join('|')})(?:\.resolve)?|createRequire\)?\([^()]*\))\(\s*${TEXT}\s*[,)]`,
    'g'
  )
  const required = [...code.matchAll(byRequire)].flatMap(([, , path]) => byRequirePath(path!, file))
  const linked = [...code.matchAll(BY_URL)].flatMap(([, , path]) => byUrl(path!, file))
  const imported = imports ? [...code.matchAll(imports)].flatMap(([, , path]) => byImport(path!, file)) : []
  return [...required, ...linked, ...imported].map(path => normalizePath(path)).filter(isOurs)
}

function byRequirePath(path: string, file: string): string[] {
  if (!isRelative(path)) return []
  return attempt(
    () => [createRequire(file).resolve(path)],
    // It may come: until then the module that asks for it fails.
    () => byUrl(path, file)
  )
}

function byImport(path: string, file: string): string[] {
  return isRelative(path) ? byUrl(path, file) : []
}

function byUrl(path: string, file: string): string[] {
  if (URL.canParse(path) || !CODE.test(extname(path))) return []
  return attempt(
    () => [fileURLToPath(new URL(path, pathToFileURL(file)))],
    () => []
  )
}

function isRelative(path: string): boolean {
  return /^\.{1,2}\//.test(path)
}

function isOurs(file: string): boolean {
  return !file.includes('/node_modules/')
}
