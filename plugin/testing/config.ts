/** The project's Vite config, for a server in which nothing but the harness runs. */
import { existsSync } from 'node:fs'
import { type InlineConfig, loadConfigFromFile, mergeConfig, type Plugin, type PluginOption } from 'vite'
import { harnessHmr } from '../index.ts'
import type { Options } from '../options.ts'
import type { Api } from '../vite/api.ts'

/** A config, and the plugin in it that runs the harness. */
export interface Configured {
  config: InlineConfig
  plugin: Plugin<Api>
}

/**
 * The config of the project in `root` with `vite` over it, without a port, a watcher or a line on the console. With an
 * `entry` among the options the project's own `harnessHmr()` is left out.
 * @throws when the root is not there, when there is neither an entry nor a `harnessHmr()`, and what the config file throws.
 */
export async function configure(root: string, options: Partial<Options>, vite: InlineConfig): Promise<Configured> {
  const { configFile, mode = 'development', ...inline } = vite
  if (!existsSync(root)) throw new Error(`root "${root}" does not exist`)
  const env = { command: 'serve', mode } as const
  const loaded = configFile === false ? null : await loadConfigFromFile(env, configFile, root, 'silent')
  const config: InlineConfig = mergeConfig(loaded?.config ?? {}, inline)
  const plugins = await flat(config.plugins)
  const own = ownPlugins(options, plugins.some(isHarnessHmr), loaded?.path ?? 'the config')
  const plugin = own?.[0] ?? (plugins.find(isHarnessHmr) as Plugin<Api>)
  return {
    plugin,
    config: {
      root,
      ...config,
      logLevel: inline.logLevel ?? 'silent',
      clearScreen: false,
      mode,
      configFile: false,
      plugins: own ? [...plugins.filter(other => !isHarnessHmr(other)), own] : plugins,
      // No dependencies of a browser are looked for.
      optimizeDeps: { ...config.optimizeDeps, noDiscovery: true, include: [] },
      server: { ...config.server, middlewareMode: true, ws: false, watch: null }
    }
  }
}

function ownPlugins({ entry, ...rest }: Partial<Options>, isConfigured: boolean, where: string) {
  if (entry !== undefined) return harnessHmr({ ...rest, entry })
  if (!isConfigured) throw new Error(`no "entry" is given, and ${where} has no harnessHmr()`)
  const [unused] = Object.entries(rest).flatMap(([name, value]) => (value === undefined ? [] : [name]))
  if (unused === undefined) return undefined
  throw new Error(`option "${unused}" needs an "entry": without one, harnessHmr() in ${where} runs as it is`)
}

const isHarnessHmr = ({ name }: Plugin): boolean => /^harness-hmr(:|$)/.test(name)

async function flat(option: PluginOption): Promise<Plugin[]> {
  const value = await option
  if (Array.isArray(value)) return (await Promise.all(value.map(flat))).flat()
  return value ? [value] : []
}
