/** Evaluations that may never end: which modules they hang on, and how they are given up. */
import { basename } from 'node:path'
import type { ModuleCacheMap } from 'vite-node/client'
import { normalizeModuleId } from 'vite-node/utils'

/** An evaluation that was given up. */
export class StillEvaluating extends Error {
  /** The modules that have not ended, the innermost first; what mends one of them may let all end. */
  readonly modules: string[]

  constructor(modules: string[], { reason }: AbortSignal) {
    const [innermost] = modules
    const what =
      innermost === undefined ? 'a module is still being loaded' : `"${basename(innermost)}" is still being evaluated`
    const isLate = reason instanceof Error && reason.name === 'TimeoutError'
    super(
      isLate
        ? `${what} at the deadline: an \`await\` at its top level does not settle`
        : `${what}, and was given up: ${reason instanceof Error ? reason.message : String(reason)}`
    )
    this.name = 'StillEvaluating'
    this.modules = modules
  }
}

/** Resolves with the result of an evaluation, whose modules are written to `cache`. @throws StillEvaluating on abort. */
export async function orGiveUp<T>(evaluation: Promise<T>, cache: ModuleCacheMap, signal?: AbortSignal): Promise<T> {
  if (!signal) return evaluation
  let giveUp!: () => void
  const given = new Promise<never>((_, reject) => {
    giveUp = () => reject(new StillEvaluating(unfinishedIn(cache), signal))
  })
  signal.addEventListener('abort', giveUp)
  if (signal.aborted) giveUp()
  // Nobody waits for it any more then.
  evaluation.catch(() => {})
  try {
    return await Promise.race([evaluation, given])
  } finally {
    signal.removeEventListener('abort', giveUp)
  }
}

/** The modules of a cache whose evaluation has begun and not ended, the innermost first. */
function unfinishedIn(cache: ModuleCacheMap): string[] {
  const unfinished = [...cache].filter(([, { promise, evaluated }]) => promise && evaluated === false)
  const ids = new Set(unfinished.map(([id]) => id))
  const waits = ([, { imports }]: (typeof unfinished)[number]) =>
    [...(imports ?? [])].some(other => ids.has(normalizeModuleId(other)))
  return [...unfinished.filter(entry => !waits(entry)), ...unfinished.filter(waits)].map(([id]) => id)
}
