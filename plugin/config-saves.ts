/**
 * A second save of vite.config.ts within 50 ms of the first is seen by nobody: chokidar drops it, and Vite restarts once.
 * So the new server looks whether its config has been written since the save that it was restarted for.
 */
import { statSync } from 'node:fs'
import { normalizePath, type ViteDevServer } from 'vite'

/** Milliseconds after which nobody is still writing what caused the restart. */
const LOOK_AGAIN = 100

/** When each config file had been written when its save was noticed. Process-wide: a restart loads this module anew. */
const noticed: Map<string, number> = ((globalThis as Record<symbol, any>)[Symbol.for('harness-hmr.config')] ??=
  new Map())

function filesOf({ config }: ViteDevServer): string[] {
  return config.configFile ? [config.configFile, ...config.configFileDependencies].map(file => normalizePath(file)) : []
}

/** A file was saved: Vite restarts for it when it is part of the config, and reads it after this. */
export function noticeSave(file: string, server: ViteDevServer): void {
  if (filesOf(server).includes(normalizePath(file))) noticed.set(normalizePath(file), writtenAt(file))
}

/** Restarts the server once more when its config has been written since. Returns how to stop looking. */
export function followConfig(server: ViteDevServer): () => void {
  const timer = setTimeout(() => {
    const isStale = filesOf(server).some(file => noticed.has(file) && noticed.get(file) !== writtenAt(file))
    for (const file of filesOf(server)) if (noticed.has(file)) noticed.set(file, writtenAt(file))
    if (isStale) void server.restart()
  }, LOOK_AGAIN)
  timer.unref()
  return () => clearTimeout(timer)
}

function writtenAt(file: string): number {
  return statSync(file, { throwIfNoEntry: false })?.mtimeMs ?? 0
}
