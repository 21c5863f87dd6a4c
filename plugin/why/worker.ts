/** The worker of a search: takes the chunks of a heap snapshot, and tells what keeps each of the objects asked for. */
import { parentPort, workerData } from 'node:worker_threads'
import { Code, type Scripts } from './code.ts'
import { explain, type Explanation } from './explain.ts'
import type { Heap } from './heap.ts'
import { HeapReader } from './reader.ts'
import { Ephemerons, Reach } from './search.ts'

/** What the worker is started with. */
export interface Question extends Scripts {
  /** The name of the property that holds the WeakRefs: of the retired objects, and of living ones. */
  tag: string
  /** Names of the living ones. */
  alive: string[]
}

/** What the worker says; the last message is the reply. */
export type Message =
  | { kind: 'progress'; stage: 'parse' | 'search'; fraction: number }
  /** The index of each object that is still reachable. */
  | { kind: 'answer'; found: [object: number, Explanation][] }

const { tag, alive, ...scripts } = workerData as Question
const reader = new HeapReader()
let told = 0

parentPort!.on('message', (chunk: Uint8Array | null) => {
  if (chunk === null) return reply()
  reader.write(chunk)
  if (reader.progress < told + 0.1) return
  told = reader.progress
  say({ kind: 'progress', stage: 'parse', fraction: told })
})

function say(message: Message): void {
  // oxlint-disable-next-line unicorn/require-post-message-target-origin -- a thread has no origin
  parentPort!.postMessage(message)
}

function reply(): void {
  const heap = reader.end()
  say({ kind: 'progress', stage: 'search', fraction: 0 })
  const code = new Code(heap, scripts)
  const ephemerons = new Ephemerons(heap)
  const retired = referents(heap, 'retired')
  const living = new Map(
    referents(heap, 'alive').flatMap((node, i) => (node === undefined ? [] : [[node, alive[i]!] as const]))
  )
  say({ kind: 'progress', stage: 'search', fraction: 0.5 })
  const reachable = new Reach(heap, ephemerons, [0])
  // What a user has in mind comes first: of two ways the one from there is the one to show.
  const known = [...living.keys(), ...code.runningScopes()].filter(node => reachable.has(node))
  const reach = new Reach(heap, ephemerons, [...known, 0, ...rootsOf(heap)])
  const isRetired = new Set(retired.filter(node => node !== undefined))
  const found = retired.flatMap((node, i): [number, Explanation][] =>
    node !== undefined && reach.has(node)
      ? [[i, explain(heap, code, reach.path(node), { retired: isRetired, alive: living })]]
      : []
  )
  say({ kind: 'answer', found })
}

/** What the WeakRefs of a list refer to, in its order; `undefined` for what was collected. */
function referents(heap: Heap, list: 'retired' | 'alive'): (number | undefined)[] {
  const [name] = [...heap.stringsWith(tag)].find(([, text]) => text === tag) ?? []
  const edge = heap.edgeNames.findIndex((text, at) => text === name && heap.edge(at).type === 'property')
  const refs = edge < 0 ? undefined : heap.get(heap.to[edge], list)
  if (refs === undefined) throw new Error('the heap snapshot does not contain what is searched for')
  const elements = heap.edges(refs).filter(({ type }) => type === 'element')
  const found: (number | undefined)[] = []
  for (const { name: index, to } of elements)
    found[Number(index)] = heap.edges(to).find(({ type, name }) => type === 'weak' && name === 'target')?.to
  return found
}

/** The objects where V8 and Node begin: what is reached from the global object is not a module's doing. */
function rootsOf(heap: Heap): number[] {
  const roots = heap.edges(0).map(({ to }) => to)
  const globals = roots.flatMap(node => heap.get(node, 'global_object') ?? [])
  return [...roots, ...globals]
}
