/** A way through the heap, and what the things on it are called. */
import type { At, Code } from './code.ts'
import type { Edge, Heap } from './heap.ts'
import type { Path } from './search.ts'

/** A thing that keeps what comes after it on a way. */
export interface Anchor {
  what: string
  at?: At
}

/** Looks whether the thing at `i` is one. */
export type Finder = (way: Way, i: number) => Anchor | undefined

/** A function by its name, and where the user has written it. */
export interface FunctionAt {
  name: string
  at: At | undefined
}

/** A way: `nodes[i]` refers to `nodes[i + 1]` by `edges[i]`. */
export class Way {
  readonly heap: Heap
  readonly code: Code
  readonly nodes: number[]
  readonly edges: Edge[]
  /** Names of living objects that the caller knows. */
  readonly alive: ReadonlyMap<number, string>

  constructor(heap: Heap, code: Code, { nodes, edges }: Path, alive: ReadonlyMap<number, string>) {
    this.heap = heap
    this.code = code
    this.nodes = nodes
    this.edges = edges
    this.alive = alive
  }

  /** The way up to the thing at `i`. */
  upTo(i: number): Way {
    const path = { nodes: this.nodes.slice(0, i + 1), edges: this.edges.slice(0, i) }
    return new Way(this.heap, this.code, path, this.alive)
  }

  /** The class of the object at `i`. */
  name(i: number): string {
    const node = this.nodes[i]
    return node === undefined ? '' : this.heap.name(node)
  }

  /** V8's kind of the object at `i`. */
  type(i: number): string {
    const node = this.nodes[i]
    return node === undefined ? '' : this.heap.type(node)
  }

  /** The function at `i`; of a wrapper there the one that it calls. */
  function(i: number): FunctionAt | undefined {
    return this.type(i) === 'closure' ? this.describe(this.nodes[i]!) : undefined
  }

  /** Names a function; of a wrapper (`once`, `bind`, a proxy) the one that it calls. */
  describe(node: number): FunctionAt {
    const { heap } = this
    const wrapped = heap.isNamed(node, 'system / JSProxy')
      ? this.closures(node)[0]
      : (heap.get(node, 'listener') ?? heap.get(node, 'bound_function'))
    const closure = wrapped !== undefined && heap.type(wrapped) === 'closure' ? wrapped : node
    return { name: heap.type(closure) === 'closure' ? heap.name(closure) : '', at: this.place(closure) }
  }

  /** The function of a suspended call; `undefined` for what is none. */
  suspended(node: number): FunctionAt | undefined {
    const closure = this.heap.get(node, 'function')
    return closure !== undefined && this.heap.get(node, 'parameters_and_registers') !== undefined
      ? this.describe(closure)
      : undefined
  }

  /** Where a function or an object's class is written, unless by Node. */
  place(node: number): At | undefined {
    const place = this.code.place(node)
    return this.code.owner(place?.script) === 'node' ? undefined : place
  }

  /** The functions that an object refers to. */
  closures(node: number): number[] {
    const { heap } = this
    return heap.edges(node).flatMap(({ to, type }) => (type !== 'weak' && heap.type(to) === 'closure' ? [to] : []))
  }

  /** The key of the entry at `i` in the table of a Map, which stands before its value; a number is not shown. */
  key(i: number): string | undefined {
    const { heap, nodes, edges } = this
    const key = heap.get(nodes[i - 1], String(Number(edges[i - 1]?.name) - 1))
    return key !== undefined && heap.type(key) === 'string' ? heap.name(key) : undefined
  }
}

/** A name as it is put after the word for what it names; nothing for what has none. */
export const quoted = (name: string | undefined): string => (name ? ` "${name}"` : '')

/** The same for what needs no quotes. */
export const bare = (name: string | undefined): string => (name ? ` ${name}` : '')

/** A noun with its article. */
export const article = (noun: string): string => `${/^(?:[AEIOUaeiou]|FS|HTTP)/.test(noun) ? 'an' : 'a'} ${noun}`
