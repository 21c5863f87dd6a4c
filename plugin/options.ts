/** The plugin's options and their defaults. */
import type { HarnessOptions } from './harness/types.ts'

/** Options of `harnessHmr()`. Times are in milliseconds; `Infinity` waits forever. */
export interface Options {
  /**
   * The module whose default export is the plugin that composes the harness, or the configuration file (`.yml`, `.yaml`,
   * `.json`) whose rows do; relative to Vite's root.
   */
  entry: string
  /** Given to that plugin as its config; for a configuration file, to the row that includes it. */
  config?: unknown
  /** How long drivers may take to park before old instances are disposed. Default 5000. */
  grace?: number
  /** When a drain is said to be slow, and what it waits for. Default 1000. */
  warnAfter?: number
  /** When a reload goes on without its drain. Default 10000. */
  deadline?: number
  /** Packages in node_modules whose modules are evaluated and reloaded like the harness' own. */
  inline?: (string | RegExp)[]
  /** Whether what a reload retired is proven collected, by a forced garbage collection after it. Default true. */
  audit?: boolean
  /** Size of the heap in MB above which an audit waits until the process has little to do. Default 300. */
  auditHeap?: number
  /**
   * Whether the timers, sockets and watchers that a retired generation leaves are named also where that slows every
   * promise down: Node 20, 22 and the first of 24. Servers, processes, workers and listeners always are. Default false.
   */
  trace?: boolean
  /** Whether pages on other machines may do what those on this one may, where the server listens to those. Default false. */
  remote?: boolean
  /** Whether the terminal gets one JSON object per line instead of lines to read. Default false, or as the command says. */
  json?: boolean
}

/** What is a number of 0 or more, and in what it counts. */
const NUMBERS = {
  grace: { default: 5000, unit: 'milliseconds' },
  warnAfter: { default: 1000, unit: 'milliseconds' },
  deadline: { default: 10_000, unit: 'milliseconds' },
  auditHeap: { default: 300, unit: 'MB' }
}
const SWITCHES = { audit: true, trace: false, remote: false, json: false }
const NAMES = ['entry', 'config', 'inline', ...Object.keys(NUMBERS), ...Object.keys(SWITCHES)]

/**
 * Checks the options and fills in the defaults.
 * @throws an error that names the option, what it got and what it takes.
 */
export function resolveOptions(options: Options): HarnessOptions & { json: boolean } {
  const fail = (name: string, value: unknown, takes: string): never => {
    throw new Error(
      `harness-hmr: option "${name}" takes ${takes}, got ${typeof value === 'string' ? JSON.stringify(value) : String(value)}`
    )
  }
  const { entry, config, inline = [], ...rest } = options ?? {}
  // First: a misspelt one is also one that is missing.
  for (const name of Object.keys(rest)) {
    if (!NAMES.includes(name)) throw new Error(`harness-hmr: unknown option "${name}". Options are ${NAMES.join(', ')}`)
  }
  if (typeof entry !== 'string' || entry === '')
    fail('entry', entry, 'the path of the module that composes the harness')
  if (!Array.isArray(inline) || !inline.every(item => typeof item === 'string' || item instanceof RegExp))
    fail('inline', inline, 'an array of package names and patterns')
  const numbers = mapValues(NUMBERS, ({ default: value }) => value)
  const switches = { ...SWITCHES }
  for (const [name, value] of Object.entries(rest)) {
    if (value === undefined) continue
    if (name in NUMBERS) {
      const { unit } = NUMBERS[name as keyof typeof NUMBERS]
      if (typeof value !== 'number' || !(value >= 0)) fail(name, value, `${unit}, 0 or more, or Infinity`)
      numbers[name as keyof typeof NUMBERS] = value as number
    } else {
      if (typeof value !== 'boolean') fail(name, value, 'true or false')
      switches[name as keyof typeof SWITCHES] = value as boolean
    }
  }
  return { entry, config, inline: inline.map(patternOf), ...numbers, ...switches }
}

/** vite-node takes a name for the beginning of one: `agent` would be `agent-tools` too. */
function patternOf(inline: string | RegExp): RegExp {
  if (typeof inline !== 'string') return inline
  return new RegExp(`/node_modules/${inline.replaceAll(/[\\^$.*+?()[\]{}|]/g, '\\$&')}/`)
}

function mapValues<K extends string, T, R>(record: Record<K, T>, map: (value: T) => R): Record<K, R> {
  return Object.fromEntries(Object.entries<T>(record).map(([key, value]) => [key, map(value)])) as Record<K, R>
}
