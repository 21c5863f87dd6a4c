/** A Vite server in which nothing but a harness runs, for tests and for the soak. */
import { realpath } from 'node:fs/promises'
import { resolve } from 'node:path'
import { createServer, type InlineConfig, normalizePath, type Plugin } from 'vite'
import type { HarnessEvents } from '../report/events.ts'
import type { Harness } from '../harness/harness.ts'
import type { Options } from '../options.ts'
import type { ReportError } from '../report/report.ts'
import { harnessOf } from '../vite/api.ts'
import { ENVIRONMENT } from '../vite/lifecycle.ts'
import { place } from '../report/report.ts'
import { configure } from './config.ts'

/** A harness that has booted, and its server. */
export interface Served {
  /** Vite's root, absolute. */
  root: string
  harness: Harness
  /** The path that a file, relative to the root, has among the running modules. Throws when none is made of it. */
  find(file: string): Promise<string>
  close(): Promise<void>
}

/**
 * Starts a harness; nothing that happens before the listener listens.
 * @throws when the harness, or a provider of it, does not start, with the place in the source.
 */
export async function serve(
  root: string,
  options: Partial<Options>,
  vite: InlineConfig,
  listener: Partial<HarnessEvents>
): Promise<Served> {
  const { config, plugin } = await configure(root, options, vite)
  const errors: ReportError[] = []
  let told!: (boot: { failure?: ReportError; failed: string[] }) => void
  const booted = new Promise<Parameters<typeof told>[0]>(resolve => (told = resolve))
  const listen = (harness: Harness) => {
    harness.listen(listener)
    harness.listen({
      ready: ({ failed }) => told({ failed }),
      failed: failure => told({ failure, failed: [] }),
      error: error => errors.push(error)
    })
  }
  const testing: Plugin = {
    name: 'harness-hmr:testing',
    enforce: 'pre',
    // After the plugin's own, which makes the harness; it boots later.
    configureServer: { order: 'post', handler: () => listen(harnessOf(plugin)!) },
    load(id) {
      return this.environment.name === ENVIRONMENT ? loadUnsaved(id, harnessOf(plugin)!.unsaved) : undefined
    }
  }
  const server = await createServer({ ...config, plugins: [config.plugins, testing] })
  const harness = harnessOf(plugin)!
  const served = {
    root: server.config.root,
    harness,
    find: (file: string) => find(harness, resolve(server.config.root, file), file),
    close: () => server.close()
  }
  const { failure, failed } = await booted
  if (!failure && failed.length === 0) return served
  await served.close()
  const what = failed.map(name => `provider "${name}" failed`).join(', ')
  const why = (failure ? [failure] : errors).map(error => errorText(error, served.root))
  throw new Error(`the harness did not start: ${[what, ...why].filter(Boolean).join('\n')}`)
}

/** What an error says, with its place and the lines around it. */
export function errorText({ message, location, frame }: ReportError, root: string): string {
  return `${location ? `${place(location, root)} ` : ''}${message}${frame ? `\n${frame}` : ''}`
}

/** The file of a module id, and what Vite makes of it; `undefined` for a form that is not made of the text alone. */
export function formOf(id: string): { file: string; form: 'code' | 'raw' | undefined } {
  const [file = '', query = ''] = id.split('?')
  if (query === '') return { file, form: 'code' }
  return { file, form: /(^|&)raw(&|$)/.test(query) ? 'raw' : undefined }
}

/** What Vite loads for the id of a module whose file was edited in memory. */
function loadUnsaved(id: string, unsaved: ReadonlyMap<string, string>): string | undefined {
  const { file, form } = formOf(id)
  const source = form === undefined ? undefined : unsaved.get(file)
  return source !== undefined && form === 'raw' ? `export default ${JSON.stringify(source)}` : source
}

async function find({ running }: Harness, path: string, file: string): Promise<string> {
  for (const candidate of [path, await realpath(path).catch(() => path)]) {
    const normal = normalizePath(candidate)
    if (running && running.host.modulesOf(normal).length > 0) return normal
  }
  throw new Error(`"${file}": no running module is made of ${normalizePath(path)}`)
}
