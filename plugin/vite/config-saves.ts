/**
 * What is written to vite.config.ts within 50 ms of a save is seen by nobody: chokidar drops it, and Vite restarts once,
 * with what it found in the middle of it. So it is looked at again, by the new server and, where the restart has failed
 * (an editor that truncates first leaves an empty file for a moment), by the old one.
 */
import { readFileSync } from 'node:fs'
import { normalizePath, type ResolvedConfig, type ViteDevServer } from 'vite'
import { clearTimeout, setTimeout } from '../guard/clock.ts'

/** Milliseconds after which nobody is still writing what caused the restart. */
const LOOK_AGAIN = 100

/** What was in each config file when its save was noticed. Process-wide: a restart loads this module again. */
const noticed: Map<string, string> = ((globalThis as Record<symbol, any>)[Symbol.for('harness-hmr.config')] ??=
  new Map())

/** What is in the files of a config, asked just after it was loaded. */
export function contentsOf(config: ResolvedConfig): Map<string, string> {
  return new Map(filesOf(config).map(file => [file, contentOf(file)]))
}

/** Looks after one server's config, from its start to its end. */
export class ConfigSaves {
  readonly #server: ViteDevServer
  readonly #loaded: ReadonlyMap<string, string>
  readonly #timers = new Set<NodeJS.Timeout>()
  #stopped = false

  constructor(server: ViteDevServer, loaded: ReadonlyMap<string, string>) {
    this.#server = server
    this.#loaded = loaded
  }

  /** The server has started: restarts it once more when its config has been written since the save that it was made for. */
  start(): void {
    this.#later(() => {
      // An empty file is no config: since this one works, it was read later.
      const isOld = (file: string) =>
        (isStale(file) && noticed.get(file) !== '') || this.#loaded.get(file) !== contentOf(file)
      const stale = filesOf(this.#server.config).filter(isOld)
      for (const file of stale) noticed.set(file, contentOf(file))
      if (stale.length > 0) void this.#server.restart()
    })
  }

  /** A file was saved: Vite restarts for it when it is part of the config, and reads it after this. */
  notice(saved: string): void {
    const file = normalizePath(saved)
    if (!filesOf(this.#server.config).includes(file)) return
    noticed.set(file, contentOf(file))
    this.#later(() => void this.#retry(file))
  }

  stop(): void {
    this.#stopped = true
    for (const timer of this.#timers) clearTimeout(timer)
  }

  async #retry(file: string): Promise<void> {
    if (!isStale(file)) return
    // Joins the restart that is under way.
    await this.#server.restart()
    if (this.#stopped || !isStale(file)) return
    noticed.set(file, contentOf(file))
    await this.#server.restart()
  }

  #later(look: () => void): void {
    const timer = setTimeout(() => {
      this.#timers.delete(timer)
      look()
    }, LOOK_AGAIN)
    this.#timers.add(timer.unref())
  }
}

function filesOf({ configFile, configFileDependencies }: ResolvedConfig): string[] {
  return configFile ? [configFile, ...configFileDependencies].map(file => normalizePath(file)) : []
}

function isStale(file: string): boolean {
  return noticed.has(file) && noticed.get(file) !== contentOf(file)
}

function contentOf(file: string): string {
  try {
    return readFileSync(file, 'utf8')
  } catch {
    return ''
  }
}
