/** The Vite plugin: hooks, each a few lines, and the public types. */
import { DevEnvironment, normalizePath, type Plugin, type ResolvedConfig, version, type ViteDevServer } from 'vite'
import { cleanUrl } from 'vite-node/utils'
import { contentsOf } from './vite/config-saves.ts'
import { devtoolsDock } from './vite/devtools.ts'
import { type Api, PluginApi } from './vite/api.ts'
import { ENVIRONMENT, HarnessEnvironment, Lifecycle } from './vite/lifecycle.ts'
import { nodeFilesOf } from './modules/node-files.ts'
import { resolveOptions, type Options } from './options.ts'
import { assertSupported } from './vite/requirements.ts'

export type { Browsers, BrowserPage, PageListener } from './harness/browsers.ts'
export type { BeforeReload } from './reload/close.ts'
export type { Api } from './vite/api.ts'
export type { Options } from './options.ts'
export type { HarnessHmr, HarnessHmrEvents, RunningProvider, Status, Ticket } from './harness/service.ts'
export type {
  AuditReport,
  Count,
  Outcome,
  ProviderReport,
  Reason,
  ReloadReport,
  ReportError,
  Retainer,
  RowReport,
  SharedStorage,
  Step,
  WhyReport
} from './report/report.ts'
export type { AwaitedBoundary, HarnessEvents, Parking, Progress, Unloading, Waiting, Waits } from './report/events.ts'
export type { WaitsFor } from './reload/parking.ts'
export type { Location } from './report/script.ts'

export { ENVIRONMENT }

/**
 * Runs an agent harness in the dev server and reloads its providers in place. Inert in build, in preview, and where vitest
 * loads the config.
 * @throws when an option is not valid.
 */
export function harnessHmr(options: Options): [Plugin<Api>, Plugin] {
  const resolved = resolveOptions(options)
  // By config, since one plugin array may serve several servers; a restart configures the new one before it closes the old.
  const loaded = new WeakMap<ResolvedConfig, ReadonlyMap<string, string>>()
  const lifecycles = new Map<ResolvedConfig, Lifecycle>()
  const api = new PluginApi(() => {
    const all = [...lifecycles.values()]
    return (all.findLast(({ isListening }) => isListening) ?? all.at(-1))?.harness
  })

  const isActive: Plugin['apply'] = (_, { command, isPreview }) => command === 'serve' && !isPreview
  const first: Plugin<Api> = {
    name: 'harness-hmr',
    api,
    apply: isActive,
    ...devtoolsDock(),
    config: () => ({
      environments: {
        // Of its own: an empty answer to `hotUpdate` in `ssr` would switch off a user's own SSR app.
        [ENVIRONMENT]: {
          consumer: 'server',
          dev: { createEnvironment: (name, config) => new HarnessEnvironment(name, config) }
        }
      }
    }),
    configResolved(config) {
      loaded.set(config, contentsOf(config))
      assertSupported({ node: process.versions.node, vite: version })
      assertOnce(config)
    },
    configureServer(server) {
      const { config, environments } = server
      assertSameVite(environments)
      const env = environments[ENVIRONMENT]
      // vitest runs a dev server of its own with the same config, for the tests and not for the harness.
      if (!(env instanceof HarnessEnvironment) || config.plugins.some(({ name }) => name === 'vitest')) return
      env.lifecycle = new Lifecycle(server, env, resolved, loaded.get(config)!, () => lifecycles.delete(config))
      lifecycles.set(config, env.lifecycle)
      api.attach(env.lifecycle.harness)
    },
    watchChange(file) {
      lifecycles.get(this.environment.getTopLevelConfig())?.saved(normalizePath(file))
    },
    hotUpdate: {
      order: 'pre',
      handler({ file }) {
        // The client environment comes first, and no other plugin's slow hook is before us there.
        if (this.environment.name === 'client')
          lifecycles.get(this.environment.getTopLevelConfig())?.harness.changed(file)
      }
    }
  }
  const last: Plugin = {
    name: 'harness-hmr:last',
    apply: isActive,
    // Without an order: one that is last comes after Vite has read the edges of its graph.
    transform(code, id) {
      if (this.environment.name !== ENVIRONMENT) return
      for (const file of nodeFilesOf(cleanUrl(id), code).keys()) this.addWatchFile(file)
    },
    hotUpdate: {
      order: 'post',
      handler({ file, modules }) {
        if (this.environment.name !== ENVIRONMENT) return undefined
        // What other plugins have added: a virtual module, say, that they make from the file.
        const added = modules.flatMap(module => (module.id && module.file !== file ? [module.id] : []))
        lifecycles.get(this.environment.getTopLevelConfig())?.harness.invalidate(added)
        return []
      }
    }
  }
  return [first, last]
}

/** Refuses a server of another copy of Vite than the one that is imported here: their environments do not work together. */
function assertSameVite({ client }: ViteDevServer['environments']): void {
  if (client instanceof DevEnvironment) return
  throw new Error(
    'harness-hmr: two copies of Vite are loaded, one by the dev server and one by the plugin. Keep one, e.g. with `npm dedupe`'
  )
}

/** Refuses a config in which the plugin is applied more than once. */
function assertOnce({ plugins }: ResolvedConfig): void {
  const times = plugins.filter(({ name }) => name === 'harness-hmr').length
  if (times === 1) return
  throw new Error(
    `harness-hmr: \`plugins\` has harnessHmr() ${times} times, and each would run a harness of its own. Keep one of them`
  )
}
