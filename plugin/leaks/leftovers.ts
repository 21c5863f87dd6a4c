/**
 * Errors of the harness' code that nobody has caught. What a retired generation left running (a timer without cleanup, a
 * promise nobody awaits) may still throw, and so may what is closed and made again while a reload runs. It must not take the
 * agents with it: such an error is told and the harness goes on. Every other one is left to Node.
 */
import { isNativeError } from 'node:util/types'
import type { Generation } from '../audit/creators.ts'
import { scriptsOf } from '../report/script.ts'
import { claimUncaught } from './uncaught.ts'

/** An error that nobody has caught, and that is the harness' own to tell. */
export interface LateError {
  error: unknown
  /** Whose it is, in words, e.g. `agents 3 was replaced by agents 5 and still runs`. */
  whose: string
}

/** What it takes to tell whose an error is. */
export interface Versions {
  evaluates(file: string, version: number): boolean
  runs(file: string, version: number): boolean
  /** What a module is called, and the generation of it that serves, if one does. */
  serving(module: string): { name: string; generation: number | undefined }
  /** Whether a reload takes things down and up. */
  isReloading(): boolean
  /** Whether Cordis has logged an error: it is told of then, also where a loader waits for the fiber and forgets to ask. */
  wasLogged(error: unknown): boolean
}

/**
 * Catches the errors of versions that do not run. While a reload runs, also those of the others, who may miss what has been
 * taken down, and those with no code but Node's on their stack: of a socket that is closed while it connects.
 */
export function catchLateErrors(versions: Versions, tell: (late: LateError) => void): () => void {
  return claimUncaught(error => {
    if (versions.wasLogged(error)) return true
    const scripts = isNativeError(error) ? scriptsOf(error) : []
    const ours = scripts.filter(({ file, version }) => versions.evaluates(file, version))
    const retired = ours.find(({ file, version }) => !versions.runs(file, version))
    const isReloading = versions.isReloading()
    if (!retired && !(isReloading && (ours.length > 0 || isNobodys(error)))) return false
    const script = retired ?? ours[0]
    const of = script && { module: script.file, generation: script.version }
    tell({ error, whose: of ? whose(of, versions, isReloading) : 'uncaught' })
    return true
  })
}

function whose({ module, generation }: Generation, versions: Versions, isReloading: boolean): string {
  const { name, generation: serving } = versions.serving(module)
  if (isReloading) return `uncaught in ${name} ${generation}`
  if (serving === undefined) return `${name} ${generation} was removed and still runs`
  const how = serving > generation ? 'was replaced by' : 'did not come live beside'
  return `${name} ${generation} ${how} ${name} ${serving} and still runs`
}

/** Whether there is nothing but Node on an error's stack, or no stack. */
function isNobodys(error: unknown): boolean {
  const stack = isNativeError(error) ? String(error.stack) : ''
  const frames = stack.split('\n').filter(line => /^\s+at .*:\d+:\d+\)?$/.test(line))
  return frames.every(frame => /\bnode:/.test(frame))
}
