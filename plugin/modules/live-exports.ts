/** Keeps the namespace objects of earlier versions of a module alive to their holders: they read the newest exports. */
import type { Exports } from './exports.ts'

interface Live {
  newest: Exports
  /** Namespaces of earlier versions that somebody may still hold. */
  past: WeakRef<Exports>[]
}

/**
 * An importer that is left as it is holds the namespace object of the version that it imported. Those objects are ours
 * (vite-node makes them with configurable properties), so each of their names becomes a getter on the newest exports.
 * What an importer captured as a value, or extends as a class, stays what it was.
 */
export class LiveExports {
  readonly #modules = new Map<string, Live>()

  /** Makes `next` what every earlier namespace of the module shows; returns how to undo it. */
  replace(id: string, old: Exports | undefined, next: Exports): () => void {
    const live = this.#modules.get(id) ?? { newest: next, past: [] }
    this.#modules.set(id, live)
    const previous = old && Object.getOwnPropertyDescriptors(old)
    live.newest = next
    live.past = live.past.filter(ref => ref.deref() !== undefined)
    if (old) live.past.push(new WeakRef(old))
    for (const ref of live.past) redirect(ref.deref(), live)
    return () => {
      if (!old || !previous) {
        this.#modules.delete(id)
        return
      }
      live.past.pop()
      live.newest = old
      for (const name of Object.keys(old)) if (!(name in previous)) Reflect.deleteProperty(old, name)
      for (const [name, descriptor] of Object.entries(previous)) Reflect.defineProperty(old, name, descriptor)
    }
  }
}

function redirect(past: Exports | undefined, live: Live): void {
  if (!past) return
  for (const name of new Set([...Object.keys(past), ...Object.keys(live.newest)])) {
    // Not `Object.defineProperty`: a namespace that its holder has frozen stays what it was, and stops no reload.
    Reflect.defineProperty(past, name, { enumerable: true, configurable: true, get: () => live.newest[name] })
  }
}
