/** What the plugin needs of its surroundings, and what to say where that is missing. Pure. */

/** The surroundings, as far as they matter. */
export interface Surroundings {
  /** `process.versions.node` and Vite's `version`. */
  node: string
  vite: string
  /** `server.hmr` and `server.watch` of the resolved config. */
  hmr: unknown
  watch: unknown
  /** `experimental.bundledDev` of the resolved config. */
  bundledDev: boolean
  /** The script that the process runs: `process.argv[1]`. */
  script: string
}

/**
 * Refuses what cannot work.
 * @throws for a Node or Vite that is too old, with the version that is needed.
 */
export function assertSupported({ node, vite }: Pick<Surroundings, 'node' | 'vite'>): void {
  const [major = 0, minor = 0] = numbers(node)
  const isNode = major > 22 || (major === 22 && minor >= 12) || (major === 20 && minor >= 19)
  if (!isNode) throw new Error(`harness-hmr needs Node 20.19, or 22.12 or newer; this is ${node}`)
  const [viteMajor = 0, viteMinor = 0] = numbers(vite)
  if (viteMajor > 8 || (viteMajor === 8 && viteMinor >= 3)) return
  throw new Error(`harness-hmr needs Vite 8.3 or newer, whose restarts wait for the old harness; this is ${vite}`)
}

/** What keeps saves from being noticed, each with its remedy. */
export function warningsFor({ hmr, watch, bundledDev, script }: Omit<Surroundings, 'node' | 'vite'>): string[] {
  const warnings: string[] = []
  if (/[\\/]vite-node([\\/.]|$)/.test(script)) {
    warnings.push('vite-node runs a script and no dev server: the harness does not start. Run `vite`')
  }
  if (hmr === false)
    warnings.push('`server.hmr` is false: Vite tells nobody of a save, so nothing is reloaded. Remove it')
  if (watch === null) warnings.push('`server.watch` is null: no file is watched, so nothing is reloaded. Remove it')
  if (bundledDev) {
    warnings.push(
      '`experimental.bundledDev` is on: Vite tells no plugin of a save, so nothing is reloaded. Switch it off'
    )
  }
  return warnings
}

/** What a server that other machines reach at `url` shows them, and what they may do. */
export function exposure(url: string, remote: boolean): string {
  const sees = `other machines reach ${url}: they can read the sources that Vite serves and watch the live page, with the labels and errors of the harness`
  return remote
    ? `${sees}. By the option \`remote\` they can command it, and say to the harness what pages may say: where agents run tools, that is to run code here`
    : `${sees}. They command nothing, and what their pages say to the harness is not heard (option \`remote\`)`
}

function numbers(version: string): number[] {
  return version.split('.').map(part => Number.parseInt(part, 10))
}
