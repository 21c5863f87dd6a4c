/** One dev server with a harness, in every mode: what begins when Vite configures it, when it listens, and when it closes. */
import { join, resolve } from 'node:path'
import {
  createServerHotChannel,
  DevEnvironment,
  type HotPayload,
  normalizePath,
  type ResolvedConfig,
  type ViteDevServer
} from 'vite'
import { ConfigSaves } from './config-saves.ts'
import { setImmediate } from '../guard/clock.ts'
import { Harness } from '../harness/harness.ts'
import { Inlined } from './inlined.ts'
import { jsonLines, wantsJson } from '../report/json-lines.ts'
import type { resolveOptions } from '../options.ts'
import { attachPage, pageUrl } from '../page/server/page.ts'
import { addShortcuts } from './shortcuts.ts'
import { onInterrupt } from './signals.ts'
import { leaveNote } from './address.ts'
import { exposure, warningsFor } from './requirements.ts'
import { terminal } from '../report/terminal.ts'
import { TsconfigSaves } from './tsconfig-saves.ts'

/** The name of the Vite environment that the harness' modules live in. */
export const ENVIRONMENT = 'harness'

/**
 * The harness' environment. Vite tells its environments, and no plugin, which server starts and which one ends; on a
 * restart it awaits `close` of the old one before it calls `listen` of the new one, with or without a port.
 */
export class HarnessEnvironment extends DevEnvironment {
  lifecycle: Lifecycle | undefined

  constructor(name: string, config: ResolvedConfig) {
    const transport = createServerHotChannel()
    super(name, config, { hot: true, transport })
    transport.api!.outsideEmitter.on('send', (payload: HotPayload) => {
      if (payload.type === 'full-reload') this.lifecycle?.harness.recheck(() => this.#readAnew())
    })
  }

  /** Vite's resolver keeps the `paths` that it has read until it hears of a new file; a saved tsconfig.json is none. */
  async #readAnew(): Promise<void> {
    await this.pluginContainer.watchChange(join(this.config.root, 'tsconfig.json'), { event: 'create' })
    this.moduleGraph.invalidateAll()
  }

  override async listen(server: ViteDevServer): Promise<void> {
    await super.listen(server)
    this.lifecycle?.listen()
  }

  override async close(): Promise<void> {
    // First: what the harness still imports while it is torn down is found.
    await this.lifecycle?.close()
    await super.close()
  }
}

/** What a dev server does for its harness. */
export class Lifecycle {
  readonly harness: Harness
  readonly #saves: ConfigSaves
  readonly #tsconfigs: TsconfigSaves
  readonly #server: ViteDevServer
  readonly #detachPage: () => void
  readonly #watching: Promise<unknown>
  readonly #closed: () => void
  readonly #remote: boolean
  #stopListening = () => {}
  #takeNote = () => {}
  #isListening = false
  #closing: Promise<void> | undefined

  /**
   * @param loaded - what was in the files of the config when they were read.
   * @param closed - called when the harness is gone.
   */
  constructor(
    server: ViteDevServer,
    env: HarnessEnvironment,
    { entry, json, ...limits }: ReturnType<typeof resolveOptions>,
    loaded: ReadonlyMap<string, string>,
    closed: () => void
  ) {
    const { root, logger, experimental } = server.config
    const { hmr, watch } = server.config.server
    const { bundledDev } = experimental
    for (const warning of warningsFor({ hmr, watch, bundledDev, script: process.argv[1] ?? '' })) {
      logger.warn(`[harness-hmr] ${warning}`)
    }
    this.#server = server
    this.#closed = closed
    this.#remote = limits.remote
    this.harness = new Harness(env, { ...limits, entry: normalizePath(resolve(root, entry)) }, server.ws)
    const write = (line: string) => void process.stdout.write(line)
    this.harness.listen(json || wantsJson() ? jsonLines(write, () => pageUrl(server)) : terminal(logger, root, entry))
    this.#detachPage = attachPage(server, this.harness)
    addShortcuts(server, harnessOf)
    this.#watching = new Promise(resolve => server.watcher.once('ready', resolve))
    this.#saves = new ConfigSaves(server, loaded)
    this.#tsconfigs = new TsconfigSaves(server.watcher, env)
    const inlined = new Inlined(server.watcher, limits.inline)
    const watchMore = () => {
      const { host, rows } = this.harness.running ?? {}
      this.#tsconfigs.watch()
      inlined.watch(host?.files() ?? [])
      // They may be anywhere.
      server.watcher.add([...(rows?.files().keys() ?? [])])
    }
    this.harness.listen({ ready: watchMore, reload: watchMore })
  }

  /** Whether the server has started; the new one of a restart that fails never does. */
  get isListening(): boolean {
    return this.#isListening
  }

  /** The server starts: boots the harness, as soon as the port is ours where there is one. */
  listen(): void {
    this.#isListening = true
    const { httpServer } = this.#server
    if (httpServer) httpServer.once('listening', () => this.#boot())
    else this.#boot()
  }

  /** A file was saved, created or deleted; comes before anybody reads it again. */
  saved(file: string): void {
    this.#saves.notice(file)
    this.#tsconfigs.notice(file)
  }

  /** The server ends: resolves when the harness is gone. */
  close(): Promise<void> {
    return (this.#closing ??= this.#close())
  }

  #boot(): void {
    if (this.#closing) return
    // Without a server of our own, signals are not ours either.
    if (this.#server.httpServer) this.#stopListening = onInterrupt(() => this.#server.close())
    this.#saves.start()
    // Vite knows its address right after its own listener, which comes after ours.
    setImmediate(() => {
      this.#leaveNote()
      this.#warnOfGuests()
    })
    void this.harness.start(this.#watching)
  }

  /** Whoever reaches the server from elsewhere is nobody that the owner of the harness has let in. */
  #warnOfGuests(): void {
    const { resolvedUrls, config } = this.#server
    const [url] = resolvedUrls?.network ?? []
    if (url && !this.#closing) config.logger.warn(`[harness-hmr] ${exposure(url, this.#remote)}`)
  }

  #leaveNote(): void {
    const url = this.#server.resolvedUrls?.local[0]
    if (url && !this.#closing) this.#takeNote = leaveNote(this.#server.config.root, url)
  }

  async #close(): Promise<void> {
    this.#saves.stop()
    this.#tsconfigs.stop()
    this.#detachPage()
    this.#takeNote()
    await this.harness.stop()
    this.#closed()
    // Last: until then a second Ctrl-C is ours.
    this.#stopListening()
  }
}

/** The harness of a dev server; after a restart the new one's, also when the plugin was loaded again for it. */
function harnessOf({ environments }: ViteDevServer): Harness | undefined {
  return (environments[ENVIRONMENT] as HarnessEnvironment | undefined)?.lifecycle?.harness
}
