/** What other plugins and scripts find at `plugin.api`, as is the custom among Vite's plugins. */
import type { Harness } from '../harness/harness.ts'
import type { Status, Ticket } from '../harness/service.ts'
import { attempt } from '../guard/contain.ts'
import { EVENTS, type HarnessEvents } from '../report/events.ts'

/** The `api` of the plugin; where it is in several dev servers, the newest one answers. */
export interface Api {
  /** What goes on now; `stopped` while there is no dev server. */
  readonly status: Status
  /** Asks for a reload of a file, absolute or relative to Vite's root, as its save does. Returns at once; the outcome is an event. */
  reload(file: string): Ticket
  /** Calls `listener` at an event of every harness that the plugin runs, also of later ones; returns how to stop. */
  on<E extends keyof HarnessEvents>(event: E, listener: HarnessEvents[E]): () => void
}

/** By a name that other copies of this module know: Vite bundles a config, and with it its plugins. */
const HARNESS = Symbol.for('harness-hmr.harness')

/** The api of one call of `harnessHmr()`. */
export class PluginApi implements Api {
  readonly #newest: () => Harness | undefined
  readonly #listeners = new Map<keyof HarnessEvents, Set<(...args: never[]) => void>>()

  /** `newest` finds the harness of the newest dev server. */
  constructor(newest: () => Harness | undefined) {
    this.#newest = newest
  }

  get status(): Status {
    return this.#newest()?.status ?? { state: 'stopped', pending: [], dirty: [], abandoned: [] }
  }

  reload(file: string): Ticket {
    const message = 'nothing is reloaded: there is no dev server'
    return this.#newest()?.request(file) ?? { file, when: 'never', providers: [], message }
  }

  on<E extends keyof HarnessEvents>(event: E, listener: HarnessEvents[E]): () => void {
    const listeners = this.#listeners.get(event) ?? new Set()
    this.#listeners.set(event, listeners)
    // Two calls with one function are two.
    const own: (...args: never[]) => void = listener.bind(undefined)
    listeners.add(own)
    return () => void listeners.delete(own)
  }

  /** A harness was made: what it tells is passed on. */
  attach(harness: Harness): void {
    const passOn = (event: keyof HarnessEvents) => {
      const call = (...args: never[]) => {
        for (const listener of this.#listeners.get(event) ?? [])
          attempt(
            () => listener(...args),
            error => harness.report(error)
          )
      }
      return [event, call] as const
    }
    harness.listen(Object.fromEntries(EVENTS.map(passOn)) as Partial<HarnessEvents>)
  }

  get [HARNESS](): Harness | undefined {
    return this.#newest()
  }
}

/** The harness of the newest dev server of a plugin, with its insides: for our own tools. */
export function harnessOf(plugin: { api?: unknown } | undefined): Harness | undefined {
  return (plugin?.api as { [HARNESS]?: Harness } | undefined)?.[HARNESS]
}
