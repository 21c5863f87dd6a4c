/**
 * What was applied with what. Cordis keeps neither the plugin object nor, in one of its packages, the config as it was
 * given; and what `ctx.plugin()` returns would stand for a fiber that is gone once its plugin has been replaced.
 */
import type { Fiber, Registry } from './cordis.ts'

/** One call of `ctx.plugin()`, and what has become of it; the same through all generations of the plugin. */
export interface Application {
  plugin: unknown
  /** Which call it was: what a reload applies again keeps its place among its siblings. */
  nth: number
  /** The config in force, raw: what `ctx.plugin()` was given, or `fiber.update()` since. */
  config: unknown
  getOuterStack: () => string[]
  /** What the caller holds. */
  handle: WeakRef<Fiber>
  /** Whether the caller has disposed it, if need be between two generations. */
  off: boolean
}

const original = Symbol.for('cordis.original')

/** The applications of one registry. */
export class Applied {
  readonly #known = new WeakMap<Fiber, Application>()
  #calls = 0

  constructor(traced: Registry) {
    const registry = (traced as Registry & { [original]?: Registry })[original] ?? traced
    const { plugin: apply } = registry
    const note = (...given: Parameters<Applied['note']>) => this.note(...given)
    registry.plugin = function plugin(value, config, getOuterStack = outerStack()) {
      const handle = apply.call(this, value, config, getOuterStack)
      note(handle, value, config, getOuterStack)
      return handle
    }
  }

  /** The application that a fiber, or the place of one, belongs to. */
  of(fiber: Fiber): Application | undefined {
    return this.#known.get(fiber)
  }

  /** Notes a call of `ctx.plugin()`. */
  note(handle: Fiber, plugin: unknown, config: unknown, getOuterStack: () => string[]): void {
    const { fiber } = handle.ctx
    const nth = this.#calls++
    const application: Application = { plugin, nth, config, getOuterStack, handle: new WeakRef(handle), off: false }
    this.#known.set(fiber, application)
    noteUpdates(fiber, application)
    if (handle === fiber) return
    const now = () => Object.getPrototypeOf(handle) as Fiber
    handle.dispose = () => {
      application.off = true
      return now().dispose()
    }
    // Cordis' own would keep the first fiber as long as the caller keeps the handle.
    // oxlint-disable-next-line unicorn/no-thenable -- the handle is one, as Cordis has made it
    Object.defineProperty(handle, 'then', {
      configurable: true,
      writable: true,
      value: (onFulfilled: any, onRejected: any) => now().await().then(onFulfilled, onRejected)
    })
  }

  /** From now on `fiber` is what the application of `earlier` is about; a place may be one too. */
  hand(earlier: Fiber, fiber: Fiber, plugin?: unknown): void {
    const application = this.#known.get(earlier)
    if (!application) return
    if (plugin !== undefined) application.plugin = plugin
    this.#known.set(fiber, application)
    noteUpdates(fiber, application)
    const handle = application.handle.deref()
    if (handle && Object.getPrototypeOf(handle) === earlier) Object.setPrototypeOf(handle, fiber)
  }
}

/** What `update()` is given is the config in force when it was accepted. */
function noteUpdates(fiber: Fiber, application: Application): void {
  const { update } = Object.getPrototypeOf(fiber) as Fiber
  if (typeof update !== 'function') return
  fiber.update = function (config, noSave) {
    const result = update.call(this, config, noSave)
    application.config = config
    return result
  }
}

/** What Cordis itself puts there: the stack of whoever applied the plugin, without our frame and its own. */
function outerStack(): () => string[] {
  const error = new Error()
  return () => error.stack!.split('\n').slice(3)
}
