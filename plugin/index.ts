/** The Vite plugin: hooks, each a few lines, and the public types. */
import { resolve } from 'node:path'
import { createServerHotChannel, DevEnvironment, normalizePath, type Plugin, version, type ViteDevServer } from 'vite'
import { ConfigSaves, contentsOf } from './config-saves.ts'
import { devtoolsDock } from './devtools.ts'
import { Harness } from './harness.ts'
import { jsonLines, wantsJson } from './json-lines.ts'
import { resolveOptions, type Options } from './options.ts'
import { attachPage, pageUrl } from './page.ts'
import { addShortcuts } from './shortcuts.ts'
import { onInterrupt } from './signals.ts'
import { assertSupported, warningsFor } from './surroundings.ts'
import { terminal } from './terminal.ts'

export type { Browsers, BrowserPage, PageListener } from './browsers.ts'
export type { BeforeReload } from './close.ts'
export type { Options } from './options.ts'
export type { HarnessHmr, HarnessHmrEvents, RunningProvider, Status, Ticket } from './service.ts'
export type { AuditReport, Outcome, ProviderReport, ReloadReport, ReportError, Step, WhyReport } from './report.ts'
export type { Progress, SlowDrain } from './running.ts'
export type { Location } from './script.ts'

/** What other plugins and tests find at `plugin.api`, as is the custom among Vite's plugins. */
export interface Api {
  /** The harness of the newest dev server; `undefined` before there is one. */
  readonly harness: Harness | undefined
}

/** The name of the Vite environment that the harness' modules live in. */
export const ENVIRONMENT = 'harness'

/**
 * Runs an agent harness in the dev server and reloads its providers in place. Inert in build, in preview, and where vitest
 * loads the config.
 * @throws when an option is not valid.
 */
export function harnessHmr(options: Options): [Plugin<Api>, Plugin] {
  const { entry, json, ...limits } = resolveOptions(options)
  // A restart configures the new server before it closes the old one, with the same plugin object or with another.
  const served: { harness: Harness; saves: ConfigSaves; stop: () => Promise<void> }[] = []
  let loaded: ReadonlyMap<string, string> = new Map()

  const start = (server: ViteDevServer, env: DevEnvironment) => {
    const { root, logger, experimental } = server.config
    const { hmr, watch } = server.config.server
    const { bundledDev } = experimental
    for (const warning of warningsFor({ hmr, watch, bundledDev, script: process.argv[1] ?? '' })) {
      logger.warn(`[harness-hmr] ${warning}`)
    }
    const harness = new Harness(env, { ...limits, entry: normalizePath(resolve(root, entry)) }, server.ws)
    const write = (line: string) => void process.stdout.write(line)
    harness.listen(json || wantsJson() ? jsonLines(write, () => pageUrl(server)) : terminal(logger, root, entry))
    const detachPage = attachPage(server, harness)
    addShortcuts(server, harnessOf)
    // Not before the old server is closed, which `listening` waits for; without a server of our own, signals are not ours either.
    const watching = new Promise(resolve => server.watcher.once('ready', resolve))
    const saves = new ConfigSaves(server, loaded)
    const boot = () => {
      saves.start()
      void harness.start(watching)
    }
    if (server.httpServer) server.httpServer.once('listening', boot)
    else setImmediate(boot)
    const stopListening = server.httpServer ? onInterrupt(() => server.close()) : () => {}
    served.push({
      harness,
      saves,
      stop: async () => {
        saves.stop()
        detachPage()
        await harness.stop()
        // Last: until then a second Ctrl-C is ours.
        stopListening()
      }
    })
  }

  const isActive: Plugin['apply'] = (_, { command, isPreview }) => command === 'serve' && !isPreview
  const first: Plugin<Api> = {
    name: 'harness-hmr',
    api: {
      get harness() {
        return served.at(-1)?.harness
      }
    },
    apply: isActive,
    ...devtoolsDock(),
    config: () => ({
      environments: {
        // Of its own: an empty answer to `hotUpdate` in `ssr` would switch off a user's own SSR app.
        [ENVIRONMENT]: {
          consumer: 'server',
          dev: {
            createEnvironment: (name, config) =>
              new DevEnvironment(name, config, { hot: true, transport: createServerHotChannel() })
          }
        }
      }
    }),
    configResolved(config) {
      loaded = contentsOf(config)
      assertSupported({ node: process.versions.node, vite: version })
    },
    configureServer(server) {
      const env = server.environments[ENVIRONMENT]
      // vitest runs a dev server of its own with the same config, for the tests and not for the harness.
      const isTest = server.config.plugins.some(({ name }) => name === 'vitest')
      if (env && !isTest) start(server, env)
    },
    watchChange(file) {
      for (const { saves } of served) saves.notice(file)
    },
    hotUpdate: {
      order: 'pre',
      handler({ file }) {
        // The client environment comes first, and no other plugin's slow hook is before us there.
        if (this.environment.name === 'client') for (const { harness } of served) harness.changed(file)
      }
    },
    async closeServer({ reason }) {
      const closing = served.splice(0, reason === 'restart' ? served.length - 1 || 1 : served.length)
      for (const { stop } of closing) await stop()
    }
  }
  const last: Plugin = {
    name: 'harness-hmr:last',
    apply: isActive,
    hotUpdate: {
      order: 'post',
      handler({ file, modules }) {
        if (this.environment.name !== ENVIRONMENT) return undefined
        // What other plugins have added: a virtual module, say, that they make from the file.
        const added = modules.flatMap(module => (module.id && module.file !== file ? [module.id] : []))
        for (const { harness } of served) harness.invalidate(added)
        return []
      }
    }
  }
  return [first, last]
}

/** The harness of a dev server, also when a restart has made the plugin anew. */
function harnessOf({ config }: ViteDevServer): Harness | undefined {
  const plugin = config.plugins.find(({ name }) => name === 'harness-hmr') as Plugin<Api> | undefined
  return plugin?.api?.harness
}

export default harnessHmr
