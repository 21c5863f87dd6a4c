/**
 * What a retired generation left running (a timer without cleanup, a promise nobody awaits) may still throw, into the
 * process. It must not take the agents with it: such an error is told and the harness goes on. Every other one is left to
 * Node, and to whoever else listens.
 */
import { scriptOf } from './script.ts'

/** How many listeners `process` has per event; what a provider adds there has to be taken away by it too. */
export function processListeners(): Map<string | symbol, number> {
  return new Map(process.eventNames().map(event => [event, process.listenerCount(event)]))
}

/** What to say of the events of `process` that have more listeners than `before`. */
export function listenerGrowth(before: ReadonlyMap<string | symbol, number>): string[] {
  return [...processListeners()].flatMap(([event, count]) => {
    const more = count - (before.get(event) ?? 0)
    return more > 0 ? [`process has ${count} listeners for "${String(event)}", ${more} more than before`] : []
  })
}

const EVENTS = ['uncaughtException', 'unhandledRejection'] as const

/** An error of a version of a module that does not run any more. */
export interface LateError {
  error: Error
  module: string
  generation: number
}

/**
 * Catches the late errors of versions of which `isRetired` is true; returns how to stop.
 * @param isRetired - asked for the innermost module of the harness on the error's stack.
 */
export function catchLateErrors(
  isRetired: (module: string, generation: number) => boolean,
  tell: (late: LateError) => void
): () => void {
  const listeners = EVENTS.map(event => {
    const listener = (reason: unknown) => {
      const script = reason instanceof Error ? scriptOf(reason) : undefined
      if (script && isRetired(script.file, script.version)) {
        return tell({ error: reason as Error, module: script.file, generation: script.version })
      }
      // With no listener but ours Node would have ended the process: let it.
      if (process.listenerCount(event) > 1) return
      stop()
      setImmediate(() => {
        throw reason
      })
    }
    process.on(event, listener)
    return [event, listener] as const
  })
  const stop = () => {
    for (const [event, listener] of listeners) process.off(event, listener)
  }
  return stop
}
