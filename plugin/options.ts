/** The plugin's options and their defaults. */
import type { HarnessOptions } from './boot.ts'

/** Options of `harnessHmr()`. Times are in milliseconds; `Infinity` waits for ever. */
export interface Options {
  /** The module whose default export is the plugin that composes the harness; relative to Vite's root. */
  entry: string
  /** Given to that plugin as its config. */
  config?: unknown
  /** How long drivers may take to park before old instances are disposed. Default 5000. */
  grace?: number
  /** When a drain is said to be slow, and what it waits for. Default 1000. */
  warnAfter?: number
  /** When a reload goes on without its drain. Default 10000. */
  deadline?: number
  /** Packages in node_modules whose modules are evaluated and reloaded like the harness' own. */
  inline?: (string | RegExp)[]
}

const TIMES = { grace: 5000, warnAfter: 1000, deadline: 10_000 }

/**
 * Checks the options and fills in the defaults.
 * @throws an error that names the option, what it got and what it takes.
 */
export function resolveOptions(options: Options): HarnessOptions {
  const fail = (name: string, value: unknown, takes: string): never => {
    throw new Error(
      `harness-hmr: option "${name}" takes ${takes}, got ${typeof value === 'string' ? JSON.stringify(value) : String(value)}`
    )
  }
  const { entry, config, inline = [], ...rest } = options ?? {}
  if (typeof entry !== 'string' || entry === '')
    fail('entry', entry, 'the path of the module that composes the harness')
  if (!Array.isArray(inline) || !inline.every(item => typeof item === 'string' || item instanceof RegExp))
    fail('inline', inline, 'an array of package names and patterns')
  const times = { ...TIMES }
  for (const [name, value] of Object.entries(rest)) {
    if (!(name in TIMES))
      throw new Error(
        `harness-hmr: unknown option "${name}". Options are entry, config, inline, ${Object.keys(TIMES).join(', ')}`
      )
    if (value === undefined) continue
    if (typeof value !== 'number' || !(value >= 0)) fail(name, value, 'milliseconds, 0 or more, or Infinity')
    times[name as keyof typeof TIMES] = value
  }
  return { entry, config, inline, ...times }
}
