/** Turns places in scripts, as a heap snapshot has them, into places in the user's sources. */
import { isAbsolute } from 'node:path'
import { fileURLToPath } from 'node:url'
import { locate, type Location, parseScript, scriptMap } from '../report/script.ts'
import type { At } from './code.ts'

/** Where a function or a module's variable is written; `undefined` for what is in no file. */
export function locationOf(at: At): Location | undefined {
  const file = fileOf(at)
  if (!file) return undefined
  if (!('line' in at)) return declaration(at, file) ?? { file, line: 1, column: 1 }
  const [line, column] = [at.line + 1, Math.max(at.column, 0) + 1]
  return locate(at.script, line, column) ?? { file, line, column }
}

/** The file of a script; `undefined` for one that was made from none. */
export function fileOf({ script }: At): string | undefined {
  const parsed = parseScript(script)
  if (parsed) return parsed.file
  if (script.startsWith('file:')) return fileURLToPath(script)
  return isAbsolute(script) ? script : undefined
}

/** Looks for the declaration in the source that the version was made from: a snapshot does not know where it is. */
function declaration({ script, variable = '' }: At & { variable?: string }, file: string): Location | undefined {
  const map = scriptMap(script)
  const source = map?.sources.length === 1 ? map.sourcesContent?.[0] : undefined
  const name = variable.replaceAll('$', '\\$')
  const declared = `(?:(?:const|let|var)\\b[^=;]*?|(?:class|(?:async\\s+)?function\\*?)\\s+)(?<![\\w$])${name}(?![\\w$])`
  const start = `^([ \\t]*)(?:export\\s+)`
  const pattern = variable === 'default' ? `${start}default\\b` : `${start}?(?:default\\s+)?${declared}`
  const matches = [...(source ?? '').matchAll(new RegExp(pattern, 'gm'))]
  // The least indented is the module's own.
  const [match] = matches.toSorted((a, b) => a[1]!.length - b[1]!.length)
  if (!match) return undefined
  const lines = source!.slice(0, match.index + match[0].length - variable.length).split('\n')
  return { file, line: lines.length, column: lines.at(-1)!.length + 1 }
}
