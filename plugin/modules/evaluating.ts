/** Evaluations that may never end: which modules they hang on, and how they are given up. */
import { basename } from 'node:path'
import type { ModuleCacheMap } from 'vite-node/client'
import { normalizeModuleId } from 'vite-node/utils'
import { now } from '../guard/clock.ts'
import { within } from '../guard/within.ts'
import { note } from '../report/describe.ts'

/** An evaluation that was given up. */
export class StillEvaluating extends Error {
  /** `modules` have not ended, the innermost first; what mends one of them may let all end. */
  constructor(modules: string[], reason: unknown) {
    const [innermost] = modules
    const what =
      innermost === undefined ? 'a module is still being loaded' : `"${basename(innermost)}" is still being evaluated`
    super(
      reason === undefined
        ? `${what} at the deadline: an \`await\` at its top level does not settle`
        : `${what}, and was given up: ${reason instanceof Error ? reason.message : String(reason)}`
    )
    this.name = 'StillEvaluating'
    note(this, { evaluating: modules })
  }
}

/** Milliseconds for which no evaluation is said to hang, however short the deadline is: Node may be busy. */
const LEAST = 250

/** How long an evaluation is waited for. */
export interface Patience {
  /** Milliseconds in which nothing was loaded and no module has ended; `Infinity` waits forever. */
  ms?: number
  /** Gives it up at once. */
  signal?: AbortSignal
}

/** What is being loaded: as long as it is, an evaluation does not hang, however large it is. */
export class Loading {
  #count = 0
  #last = now()

  /** Milliseconds in which nothing was loaded. */
  get idle(): number {
    return this.#count > 0 ? 0 : now() - this.#last
  }

  /** Loads something. */
  async during<T>(load: () => Promise<T>): Promise<T> {
    this.#count++
    try {
      return await load()
    } finally {
      this.#count--
      this.#last = now()
    }
  }
}

/**
 * Resolves with the result of an evaluation whose modules are written to `cache`.
 * @throws StillEvaluating when patience ends first.
 */
export async function orGiveUp<T>(
  evaluation: Promise<T>,
  cache: ModuleCacheMap,
  loading: Loading,
  { ms = Infinity, signal }: Patience
): Promise<T> {
  // Nobody waits for it any more then.
  evaluation.catch(() => {})
  const ended = evaluation.then(
    () => {},
    () => {}
  )
  const began = now()
  const patience = Math.max(ms, LEAST)
  for (let rest = patience; rest > 0; rest = patience - Math.min(loading.idle, now() - began)) {
    if (await within(rest, ended, signal)) return evaluation
    if (signal?.aborted) break
  }
  throw new StillEvaluating(unfinishedIn(cache), signal?.aborted ? signal.reason : undefined)
}

/** The modules of a cache whose evaluation has begun and not ended, the innermost first. */
function unfinishedIn(cache: ModuleCacheMap): string[] {
  const unfinished = [...cache].filter(([, { promise, evaluated }]) => promise && evaluated === false)
  const ids = new Set(unfinished.map(([id]) => id))
  const waits = ([, { imports }]: (typeof unfinished)[number]) =>
    [...(imports ?? [])].some(other => ids.has(normalizeModuleId(other)))
  return [...unfinished.filter(entry => !waits(entry)), ...unfinished.filter(waits)].map(([id]) => id)
}
