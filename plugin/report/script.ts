/**
 * One name per evaluation of a module, so that a stack frame tells which version of a file it belongs to, and the source
 * maps that turn such a frame back into the file's own line. vite-node's support keeps the first map of a path forever.
 */
import { dirname, resolve } from 'node:path'
import { SourceMap, type SourceMapPayload } from 'node:module'

/** A place in a source file; line and column count from 1. */
export interface Location {
  file: string
  line: number
  column: number
}

/** How many versions of a file keep their map: closures of older ones show their transformed lines. */
const KEPT_VERSIONS = 16

const SCRIPT = /^(.*)\?v=(\d+)$/
const FRAME = /((?:[a-zA-Z]:)?[^\s():]*)\?v=(\d+):(\d+):(\d+)/g

const PLACE = /((?:[a-zA-Z]:)?[^\s():]*):(\d+):(\d+)/g

const versions = new Map<string, number>()
const maps = new Map<string, SourceMapPayload | SourceMap>()

/** The name of one evaluation of a file. */
export function scriptName(file: string, version: number): string {
  return `${file}?v=${version}`
}

/** Names the next evaluation of `file`: `/app/agents.ts?v=3`. Versions count from 1 and are never used twice. */
export function nameScript(file: string, map: SourceMapPayload | undefined): { name: string; version: number } {
  const version = (versions.get(file) ?? 0) + 1
  versions.set(file, version)
  const name = scriptName(file, version)
  if (map) maps.set(name, map)
  maps.delete(scriptName(file, version - KEPT_VERSIONS))
  return { name, version }
}

/** The source map of one of our scripts, while it is kept. */
export function scriptMap(name: string): SourceMapPayload | undefined {
  const stored = maps.get(name)
  return stored instanceof SourceMap ? stored.payload : stored
}

/** Gives one of our scripts that keeps its code another map: its source has changed, but not what is made of it. */
export function replaceMap(name: string, map: SourceMapPayload | undefined): void {
  if (map && maps.has(name)) maps.set(name, map)
}

/** The text that the newest version of a file was made from, while its map is kept. */
export function sourceText(file: string): string | undefined {
  const map = scriptMap(scriptName(file, versions.get(file) ?? 0))
  // Of several sources none is the file's own for sure.
  return map?.sources.length === 1 ? (map.sourcesContent?.[0] ?? undefined) : undefined
}

/** The file and version that a script's name stands for; `undefined` for scripts that are not ours. */
export function parseScript(name: string | null | undefined): { file: string; version: number } | undefined {
  const match = name && SCRIPT.exec(name)
  return match ? { file: match[1]!, version: Number(match[2]) } : undefined
}

/** The original place of a position in one of our scripts; the position itself in `file` when there is no map. */
export function locate(script: string, line: number, column: number): Location | undefined {
  const file = parseScript(script)?.file
  if (!file) return undefined
  const stored = maps.get(script)
  if (!stored) return { file, line, column }
  const map = stored instanceof SourceMap ? stored : new SourceMap(stored)
  maps.set(script, map)
  // Not `findOrigin`: it adds the distance within what was generated, as if the source were as long.
  const origin = map.findEntry(line - 1, column - 1)
  if (!('originalLine' in origin)) return { file, line, column }
  const { originalSource, originalLine, originalColumn, generatedLine } = origin
  return {
    file: originalSource ? resolve(dirname(file), originalSource) : file,
    line: originalLine + line - generatedLine,
    column: originalColumn + 1
  }
}

/** The original place of a place on a stack. */
export function locateScript({ file, version, line, column }: Script): Location | undefined {
  return locate(scriptName(file, version), line, column)
}

/** Replaces each of our frames in a stack trace by its original place. */
export function mapStack(stack: string): string {
  return stack.replace(FRAME, (frame, file: string, version: string, line: string, column: string) => {
    const place = locate(scriptName(file, Number(version)), Number(line), Number(column))
    return place ? `${place.file}:${place.line}:${place.column}` : frame
  })
}

/** The innermost place in a stack trace, mapped or not, that lies in a file which was evaluated here. */
export function firstLocation(stack: string | undefined): Location | undefined {
  for (const [, file, line, column] of mapStack(stack ?? '').matchAll(PLACE)) {
    if (versions.has(file!)) return { file: file!, line: Number(line), column: Number(column) }
  }
  return undefined
}

type Prepare = NonNullable<typeof Error.prepareStackTrace>

let users = 0
let previous: Prepare | undefined

/** Makes `error.stack` show original places while in use; counted, since several dev servers may share a process. */
export function installStackMapping(): () => void {
  if (users++ === 0) {
    previous = Error.prepareStackTrace
    Error.prepareStackTrace = prepare
  }
  let installed = true
  return () => {
    if (!installed) return
    installed = false
    // Somebody who came after us and delegates to us stays in place.
    if (--users === 0 && Error.prepareStackTrace === prepare) Error.prepareStackTrace = previous as Prepare // undefined puts V8's own back
  }
}

/** Our scripts on a stack, noted when it was formatted. */
const noted = new WeakMap<object, { file: string; version: number }[]>()

/** The versions of our modules on the stack of an error, or of what has captured one; innermost first. */
export function scriptsOf(holder: { stack?: unknown }): { file: string; version: number }[] {
  // V8 formats a stack when it is read for the first time.
  void holder.stack
  return noted.get(holder) ?? []
}

const prepare: Prepare = (error, sites) => {
  const scripts = sites.flatMap(site => parseScript(site.getFileName()) ?? [])
  if (scripts.length > 0) noted.set(error, scripts)
  if (previous) return previous(error, sites.map(mappedSite))
  return [String(error), ...sites.map(site => `    at ${mapStack(String(site))}`)].join('\n')
}

function mappedSite(site: NodeJS.CallSite): NodeJS.CallSite {
  const script = site.getFileName()
  if (!parseScript(script)) return site
  const place = locate(script!, site.getLineNumber() ?? 1, site.getColumnNumber() ?? 1)
  if (!place) return site
  const mapped: Partial<NodeJS.CallSite & { toString(): string }> = {
    getFileName: () => place.file,
    getScriptNameOrSourceURL: () => place.file,
    getLineNumber: () => place.line,
    getColumnNumber: () => place.column,
    toString: () => mapStack(String(site))
  }
  return new Proxy(site, {
    get: (target, key) => mapped[key as keyof NodeJS.CallSite] ?? Reflect.get(target, key, target)?.bind?.(target)
  })
}

/** A place in one of our scripts: one evaluation of a file, before its source map is asked. */
export interface Script {
  file: string
  version: number
  line: number
  column: number
}

/** Our scripts on the current stack, innermost first; structured, since formatting a stack costs far more. */
export function scriptsOnStack(): Script[] {
  return sitesOnStack().flatMap(site => scriptAt(site) ?? [])
}

/** The script of ours that a site of a stack is in. */
export function scriptAt(site: NodeJS.CallSite): Script | undefined {
  const script = parseScript(site.getFileName())
  return script && { ...script, line: site.getLineNumber() ?? 1, column: site.getColumnNumber() ?? 1 }
}

/** The current stack, innermost first, without the frames that only await what runs now. */
export function sitesOnStack(): NodeJS.CallSite[] {
  const { prepareStackTrace, stackTraceLimit } = Error
  const holder: { stack?: unknown } = {}
  Error.stackTraceLimit = 60
  Error.prepareStackTrace = (_, sites) => sites
  try {
    Error.captureStackTrace(holder, sitesOnStack)
    const sites = holder.stack as (NodeJS.CallSite & { isAsync(): boolean })[]
    // Whoever awaits is no creator: an importer did not create its imports' storages.
    const from = sites.findIndex(site => site.isAsync())
    return from < 0 ? sites : sites.slice(0, from)
  } finally {
    Error.prepareStackTrace = prepareStackTrace
    Error.stackTraceLimit = stackTraceLimit
  }
}
