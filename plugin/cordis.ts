/** Finds the copy of Cordis that the harness runs on. This package brings none: two copies are two `Context` classes. */
import { dirname } from 'node:path'
import type { DevEnvironment } from 'vite'
import type { Context } from './fibers.ts'
import type { Host } from './host.ts'

const PACKAGES = ['cordis', '@deepseek-ai/cordis']

/** Patterns that keep Cordis out of the runner, also where it is a linked workspace package and looks like user code. */
export async function cordisFolders(env: DevEnvironment, entry: string): Promise<RegExp[]> {
  const patterns: RegExp[] = []
  for (const name of PACKAGES) {
    const id = (await env.pluginContainer.resolveId(name, entry))?.id
    if (id?.startsWith('/') || (id && /^[a-z]:/i.test(id))) patterns.push(new RegExp(`^${escape(dirname(id))}/`))
  }
  return patterns
}

/**
 * The `Context` class that the entry and its providers imported; resolved from the entry when none of them did.
 * @throws when they imported two, or when there is none.
 */
export async function findContext(host: Host, entry: string): Promise<new () => Context> {
  const copies = new Map<unknown, string>()
  for (const [id, exports] of host.evaluated()) {
    const { Context, Service, Fiber } = exports
    if (
      typeof Context === 'function' &&
      typeof Service === 'function' &&
      typeof Fiber === 'function' &&
      !copies.has(Context)
    )
      copies.set(Context, id)
  }
  if (copies.size > 1) {
    throw new Error(
      `two copies of cordis are loaded: ${[...copies.values()].join(' and ')}. Their contexts do not work together: keep one, e.g. with \`npm dedupe\``
    )
  }
  for (const Context of copies.keys()) return Context as new () => Context
  for (const name of PACKAGES) {
    const exports = await host.import(name, entry).catch(() => undefined)
    if (typeof exports?.['Context'] === 'function') return exports['Context'] as new () => Context
  }
  throw new Error(`entry "${entry}": cannot find cordis. Install it beside the entry: npm install cordis@4.0.0-rc.10`)
}

function escape(text: string): string {
  return text.replace(/[.*+?^${}()|[\]\\]/g, '\\$&')
}
