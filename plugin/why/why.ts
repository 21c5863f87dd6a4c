/** The deep search: what in the heap keeps a retired object. On demand only, since taking the snapshot stops the process. */
import { once } from 'node:events'
import { getHeapSnapshot } from 'node:v8'
import { fileURLToPath } from 'node:url'
import type { Worker } from 'node:worker_threads'
import { now, setImmediate } from '../guard/clock.ts'
import { outside } from '../guard/outside.ts'
import { shorten, type Retainer } from '../report/report.ts'
import { fileOf, locationOf } from './place.ts'
import type { Explanation, WayStep } from './explain.ts'
import { startWorker } from './start.ts'
import type { Message, Question } from './worker.ts'

/** An object by its name and without keeping it. */
export interface Named {
  name: string
  ref: WeakRef<object>
}

/** What a search needs to know, and whom it tells. */
export interface WhyOptions {
  /** The scripts of the modules that run, e.g. `/app/agents.ts?v=3`: what other versions hold is retired with them. */
  running: string[]
  /** Files are named relative to it on the way to an object. */
  root: string
  /** Living objects that the user knows, `service "sessions"` say: what one of them holds is named after it. */
  alive?: Named[]
  /** `snapshot` comes before the process stops; the other two run in a worker, and tell how far they are from 0 to 1. */
  onProgress?(stage: 'snapshot' | 'parse' | 'search', fraction: number): void
  /** Ends the search, at the latest when the snapshot has been taken. */
  signal?: AbortSignal
}

/** What keeps the objects that are still reachable. */
export interface Found {
  found: { object: string; retainer: Retainer }[]
  /** Milliseconds of the search, and those of them that the process stood still. */
  ms: { total: number; blocked: number }
}

/** What the names of our own scripts begin with: as a module, and as a script that a runner evaluates. */
const FOLDER = new URL('..', import.meta.url)
const OWN = [FOLDER.href, fileURLToPath(FOLDER).replaceAll('\\', '/')]

let last: Promise<unknown> = Promise.resolve()

/**
 * Finds the shortest way from a root of the heap to each object. One search at a time, in the order in which they are
 * asked for. The process stands still while the snapshot is taken: 30 to 60 ms a megabyte, twice that above 200 MB.
 * @throws the signal's reason when it is aborted.
 */
export function why(retired: Named[], options: WhyOptions): Promise<Found> {
  // The snapshot would show the async context that it is taken in as a holder.
  return outside(() => {
    const search = last.then(() => run(retired, options))
    last = search.catch(() => {})
    return search
  })
}

async function run(retired: Named[], options: WhyOptions): Promise<Found> {
  const { running, alive = [], root, onProgress, signal } = options
  signal?.throwIfAborted()
  const start = now()
  const tag = `harness-hmr.why ${crypto.randomUUID()}`
  const question: Question = { tag, running, own: OWN, alive: alive.map(({ name }) => name) }
  const worker = await startWorker(question)
  const answer = answerOf(worker, onProgress)
  // Awaited below, unless the search ends before.
  answer.catch(() => {})
  const abort = () => void worker.terminate()
  signal?.addEventListener('abort', abort, { once: true })
  try {
    onProgress?.('snapshot', 0)
    // Whoever is told should be able to say so first; and what a WeakRef has shown in this job is kept until it ends.
    await turn()
    await turn()
    signal?.throwIfAborted()
    const refs = { retired: retired.map(({ ref }) => ref), alive: alive.map(({ ref }) => ref) }
    const [explanations, blocked] = await Promise.all([answer, sendSnapshot(worker, { [tag]: refs })])
    const found = explanations.map(([i, explanation]) => ({
      object: retired[i]!.name,
      retainer: retainerOf(explanation, root)
    }))
    return { found, ms: { total: now() - start, blocked } }
  } catch (error) {
    signal?.throwIfAborted()
    throw error
  } finally {
    signal?.removeEventListener('abort', abort)
    await worker.terminate()
  }
}

/** The objects by which the worker finds the WeakRefs: their property has a name that is nowhere else. */
const tags = new Set<object>()

/** @returns the milliseconds that it took, in all of which the process stood still. */
async function sendSnapshot(worker: Worker, refs: object): Promise<number> {
  const start = now()
  tags.add(refs)
  const snapshot = getHeapSnapshot()
  tags.delete(refs)
  snapshot.on('data', (chunk: Uint8Array<ArrayBuffer>) => worker.postMessage(chunk, [chunk.buffer]))
  await once(snapshot, 'end')
  // oxlint-disable-next-line unicorn/require-post-message-target-origin -- a thread has no origin
  worker.postMessage(null)
  return now() - start
}

function answerOf(worker: Worker, onProgress: WhyOptions['onProgress']): Promise<[number, Explanation][]> {
  return new Promise((resolve, reject) => {
    worker.on('message', (message: Message) => {
      if (message.kind === 'answer') resolve(message.found)
      else onProgress?.(message.stage, message.fraction)
    })
    worker.on('error', reject)
    worker.on('exit', () => reject(new Error('the search for retainers was ended')))
    // The process may end before it; a listener would keep it again.
    worker.unref()
  })
}

function retainerOf({ text, at, path }: Explanation, root: string): Retainer {
  const location = at && locationOf(at)
  return { what: text, ...(location && { location }), path: path.map(step => words(step, root)) }
}

function words({ text, at }: WayStep, root: string): string {
  const file = at && fileOf(at)
  if (!file) return text
  const location = 'line' in at ? locationOf(at) : undefined
  return location ? `${text}, ${shorten(location.file, root)}:${location.line}` : `${text} ${shorten(file, root)}`
}

function turn(): Promise<void> {
  return new Promise(resolve => setImmediate(resolve))
}
