/**
 * Edits of the playground that are not written over its source files. A copy of a file in the scratch folder, under the
 * same path, is what runs in the harness in its place: the module stays the same module, and the copy is one more file that
 * it is made from.
 */
import { existsSync, readFileSync, rmSync } from 'node:fs'
import { join, relative } from 'node:path'
import { normalizePath, type Plugin } from 'vite'

/** The Vite plugin. `folder` is emptied when the server starts; a file that is saved drops its copy. */
export function scratch(folder: string): Plugin {
  let root = ''
  const copyOf = (file: string): string | undefined => {
    const path = relative(root, file)
    return path.startsWith('..') || file.includes('node_modules') || !/^[^?]+\.ts$/.test(path)
      ? undefined
      : join(folder, path)
  }
  return {
    name: 'playground-scratch',
    apply: 'serve',
    enforce: 'pre',
    configResolved(config) {
      root = config.root
    },
    configureServer({ config, httpServer }) {
      // vitest runs a server of its own with this config. A restart configures the new server while the old one runs.
      if (config.plugins.some(({ name }) => name === 'vitest')) return
      httpServer?.prependOnceListener('listening', () => rmSync(folder, { recursive: true, force: true }))
    },
    load(id) {
      const copy = this.environment.name === 'harness' ? copyOf(id) : undefined
      if (copy === undefined) return undefined
      // Also while there is none: so that its module is known by it when it appears.
      this.addWatchFile(normalizePath(copy))
      return existsSync(copy) ? readFileSync(copy, 'utf8') : undefined
    },
    watchChange(file) {
      // Before the harness reads it: what somebody saves is what he wants to see.
      const copy = copyOf(file)
      if (copy !== undefined) rmSync(copy, { force: true })
    }
  }
}
