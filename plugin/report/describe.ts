/** From whatever the user's code or a transform threw to a message, a place in the source and the lines around it. */
import { readFileSync } from 'node:fs'
import { messageOf, read } from '../guard/contain.ts'
import { printableLines } from '../guard/printable.ts'
import type { ReportError } from './report.ts'
import { firstLocation, mapStack, sourceText, type Location } from './script.ts'

/** What Rolldown, Oxc and Vite's plugins put on the errors of a transform. */
interface TransformError {
  message?: string
  id?: string
  loc?: { file?: string; line: number; column: number }
  frame?: string
  stack?: string
  cause?: unknown
  errors?: unknown[]
  /** What was transformed. */
  pluginCode?: unknown
}

/** How packages say that a name is taken: `tool "turns" is already registered`, `address already in use`. */
const TAKEN = /\balready (?:been )?(?:registered|defined|declared|exists?|in use|taken)\b/i
const HELD =
  'the old version holds it while new code is evaluated: make it in the body of the plugin, with `ctx.effect`, which undoes it first'

/** What whoever has thrown, or passed on, an error knows of it beside what it says. */
type Known = Pick<ReportError, 'imports' | 'evaluating'>

const known = new WeakMap<object, Known>()

/** Adds to what a report will say of an error. */
export function note(error: unknown, facts: Known): void {
  known.set(Object(error), { ...known.get(Object(error)), ...facts })
}

/** Lines that a code frame shows before and after the one that failed. */
const FRAME_LINES = 2

/**
 * Describes what went wrong in a step. The place is the innermost one in a module of the harness.
 * @param code - what the error's own place lies in; a plugin may have loaded another text than the file's.
 */
export function describeError(error: unknown, step: ReportError['step'], code?: string): ReportError {
  try {
    return described(error, step, code)
  } catch {
    // A getter of the user's on what was thrown.
    return { message: printableLines(messageOf(error)), step }
  }
}

function described(error: unknown, step: ReportError['step'], code?: string): ReportError {
  if (!isErrorLike(error)) return { message: printableLines(messageOf(error)), step }
  const { imports, evaluating } = known.get(error) ?? {}
  if (evaluating) {
    const [file] = evaluating
    const location = file === undefined ? undefined : { file, line: 1, column: 1 }
    return { message: printableLines(error.message), step, location, evaluating }
  }
  const { id, loc, frame, stack, cause, errors, pluginCode } = error as TransformError
  // Rolldown bundles what failed: the first says what and where. A cause says only where: what it is wrapped in says more.
  if (errors?.length && !loc)
    return {
      ...describeError(errors[0], step, typeof pluginCode === 'string' ? pluginCode : undefined),
      imports,
      stack: stack && printableLines(mapStack(stack))
    }
  const file = loc?.file ?? id
  const location: Location | undefined = loc && file ? { file, line: loc.line, column: loc.column + 1 } : undefined
  const place =
    location ?? (cause === undefined ? undefined : describeError(cause, step).location) ?? firstLocation(stack)
  return {
    message: firstLine(printableLines(error.message)),
    step,
    imports,
    location: place,
    hint: step === 'stage' && !loc && error.name !== 'SyntaxError' && TAKEN.test(error.message) ? HELD : undefined,
    frame:
      (place && codeFrame(place, place === location ? code : sourceText(place.file))) ??
      (frame && printableLines(frame)),
    stack: stack && printableLines(mapStack(stack))
  }
}

function isErrorLike(error: unknown): error is Error {
  return typeof error === 'object' && error !== null && typeof read(error, 'message') === 'string'
}

function firstLine(message: string): string {
  const lines = message.split('\n').map(line => line.replace(/^\[[A-Z_]+\]\s*/, '').trim())
  // Without the lines of a code frame, and the file: the location says that.
  const said = lines.filter(line => line !== '' && !/^(\d+:( |$)|[~^]+$|At file: )/.test(line))
  // "invalid config:", says Cordis, and lists below what is wrong with it.
  return (said[0]?.endsWith(':') ? said.join(' ') : said[0]) ?? message
}

/** The lines around a place in a file, or in `source` when that is not what is on disk. */
export function codeFrame({ file, line, column }: Location, source?: string): string | undefined {
  let lines: string[]
  try {
    lines = (source ?? readFileSync(file, 'utf8')).split('\n')
  } catch {
    return undefined
  }
  const from = Math.max(1, line - FRAME_LINES)
  const to = Math.min(lines.length, line + FRAME_LINES)
  const width = String(to).length
  const frame: string[] = []
  for (let at = from; at <= to; at++) {
    frame.push(`${at === line ? '>' : ' '} ${String(at).padStart(width)} | ${lines[at - 1]}`)
    if (at === line) frame.push(`  ${' '.repeat(width)} | ${' '.repeat(Math.max(0, column - 1))}^`)
  }
  return frame.join('\n')
}
