/** Shortest ways through a heap, by the references that keep what they lead to alive. */
import type { Edge, Heap } from './heap.ts'

/** A value in a WeakMap: kept while both the map and the key are. */
interface Pair {
  table: number
  key: number
  value: number
  /** Of the table, leading to the value. */
  edge: number
}

/** The entries of WeakMaps. V8 writes each as an ordinary reference from the key and from the table, which it is not. */
export class Ephemerons {
  /** By table and by key. */
  readonly pairs = new Map<number, Pair[]>()
  /** Names of edges, by the number of their string. */
  readonly names: ReadonlyMap<number, unknown>

  constructor(heap: Heap) {
    const names = [...heap.stringsWith(' / part of key (')].flatMap(([index, name]) => {
      const ids = /\/ part of key \(.* @(\d+)\) -> value \(.* @\d+\) pair in WeakMap \(table @(\d+)\)$/.exec(name)
      return ids ? [[index, { key: Number(ids[1]), table: Number(ids[2]) }] as const] : []
    })
    const entries = new Map(names)
    this.names = entries
    const objects = byId(heap, new Set(names.map(([, { key }]) => key)))
    for (let node = 0; node < heap.count; node++) {
      for (let edge = heap.first[node]!; edge < heap.first[node + 1]!; edge++) {
        const entry = entries.get(heap.edgeNames[edge]!)
        // The same name stands at the key, without the table being known there.
        if (!entry || heap.edge(edge).type !== 'internal' || heap.id(node) !== entry.table) continue
        const key = objects.get(entry.key)
        if (key !== undefined) this.#add({ table: node, key, value: heap.to[edge]!, edge })
      }
    }
  }

  #add(pair: Pair): void {
    for (const node of [pair.table, pair.key]) {
      const pairs = this.pairs.get(node)
      if (pairs) pairs.push(pair)
      else this.pairs.set(node, [pair])
    }
  }
}

function byId(heap: Heap, ids: ReadonlySet<number>): Map<number, number> {
  const nodes = new Map<number, number>()
  for (let node = 0; node < heap.count; node++) if (ids.has(heap.id(node))) nodes.set(heap.id(node), node)
  return nodes
}

/** A way: `nodes[i]` refers to `nodes[i + 1]` by `edges[i]`. */
export interface Path {
  nodes: number[]
  edges: Edge[]
}

/** What can be reached from some objects, and the shortest ways there. */
export class Reach {
  readonly #heap: Heap
  /** Per object, the edge by which it was reached first, from 1; 0 for none. */
  readonly #by: Uint32Array
  readonly #from: Uint32Array
  readonly #isSource: Uint8Array

  constructor(heap: Heap, { pairs, names }: Ephemerons, sources: Iterable<number>) {
    this.#heap = heap
    const by = (this.#by = new Uint32Array(heap.count))
    const from = (this.#from = new Uint32Array(heap.count))
    const isSource = (this.#isSource = new Uint8Array(heap.count))
    const queue = new Uint32Array(heap.count)
    let end = 0
    for (const node of sources) {
      if (isSource[node]) continue
      isSource[node] = 1
      queue[end++] = node
    }
    const visit = (node: number, edge: number, holder: number) => {
      if (isSource[node] || by[node]) return
      by[node] = edge + 1
      from[node] = holder
      queue[end++] = node
    }
    const { first, to, edgeTypes, edgeNames, weak } = heap
    for (let next = 0; next < end; next++) {
      const node = queue[next]!
      for (let edge = first[node]!; edge < first[node + 1]!; edge++) {
        if (edgeTypes[edge] === weak) continue
        if (names.has(edgeNames[edge]!) && heap.edge(edge).type === 'internal') continue
        visit(to[edge]!, edge, node)
      }
      for (const { table, key, value, edge } of pairs.get(node) ?? [])
        if (this.has(node === table ? key : table)) visit(value, edge, table)
    }
  }

  has(node: number): boolean {
    return this.#isSource[node] === 1 || this.#by[node] !== 0
  }

  /** The shortest way to an object that was reached. */
  path(node: number): Path {
    const path: Path = { nodes: [node], edges: [] }
    for (let at = node; !this.#isSource[at];) {
      path.edges.unshift(this.#heap.edge(this.#by[at]! - 1))
      at = this.#from[at]!
      path.nodes.unshift(at)
    }
    return path
  }
}
