/** Starts the worker of a search, from the published build and from TypeScript, which a worker of Node 20 does not read. */
import { readFile } from 'node:fs/promises'
import { extname } from 'node:path'
import { fileURLToPath } from 'node:url'
import { Worker } from 'node:worker_threads'
import type { Question } from './worker.ts'

/** A worker that waits for the chunks of a snapshot. */
export async function startWorker(question: Question): Promise<Worker> {
  const extension = extname(fileURLToPath(import.meta.url))
  const url = new URL(`./worker${extension}`, import.meta.url)
  // Loaders that the process was started with are for the harness.
  const options = { workerData: question, execArgv: [], name: 'harness-hmr why' }
  return new Worker(extension === '.ts' ? await inlined(url) : url, options)
}

/** A module and our modules that it imports, without types, as a URL that holds it all. */
async function inlined(url: URL): Promise<URL> {
  const { transformWithOxc } = await import('vite')
  let { code } = await transformWithOxc(await readFile(url, 'utf8'), fileURLToPath(url))
  for (const [, path] of code.matchAll(/ from ["'](\.\/[\w-]+\.ts)["']/g)) {
    code = code.replaceAll(path!, (await inlined(new URL(path!, url))).href)
  }
  return new URL(`data:text/javascript;base64,${Buffer.from(code).toString('base64')}`)
}
