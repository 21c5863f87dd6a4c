/** The objects of a heap and what they refer to, as V8 writes them into a snapshot, in typed arrays. */

/** One reference: what it is called, and where it leads. */
export interface Edge {
  type: string
  /** The name of a property, of a variable or of a slot of V8's; an index. */
  name: string | number
  to: number
}

/** Where a function is written: script and place in the code that V8 ran, counted from 0. */
export interface Position {
  script: number
  line: number
  column: number
}

/** What a snapshot consists of. */
export interface Tables {
  nodeTypes: string[]
  edgeTypes: string[]
  nodes: { type: Uint8Array; name: Uint32Array; id: Uint32Array; edge_count: Uint32Array }
  /** `to_node` counts fields, not objects. */
  edges: { type: Uint8Array; name_or_index: Uint32Array; to_node: Uint32Array }
  nodeFields: number
  /** Four numbers each: object (as above), script, line, column. */
  locations: number[]
  /** As JSON writes them, without quotes. */
  strings: { bytes: Uint8Array; starts: Uint32Array; count: number }
}

/** Beyond so many bytes a string is cut off: sources of scripts are strings too. */
export const LONGEST_STRING = 1024

/** The objects of a heap, by number; 0 is the root. */
export class Heap {
  readonly count: number
  /** Per object, its first edge; its last is the one before the first of the next object. */
  readonly first: Uint32Array
  /** Per edge, the object that it leads to. */
  readonly to: Uint32Array
  /** Per edge, its type as a number; {@link weak} is one of them. */
  readonly edgeTypes: Uint8Array
  /** Per edge, an index, or the number of a string. */
  readonly edgeNames: Uint32Array
  readonly weak: number
  readonly #tables: Tables
  readonly #numbers = new Map<string, number | undefined>()
  #located: Uint32Array | undefined

  constructor(tables: Tables) {
    const { nodes, edges, nodeFields, edgeTypes } = tables
    this.#tables = tables
    this.count = nodes.type.length
    this.edgeTypes = edges.type
    this.edgeNames = edges.name_or_index
    this.weak = edgeTypes.indexOf('weak')
    this.to = edges.to_node
    for (let edge = 0; edge < this.to.length; edge++) this.to[edge]! /= nodeFields
    this.first = new Uint32Array(this.count + 1)
    for (let node = 0; node < this.count; node++) this.first[node + 1] = this.first[node]! + nodes.edge_count[node]!
  }

  /** V8's kind of an object: `object`, `closure`, `array`, `synthetic`, … */
  type(node: number): string {
    return this.#tables.nodeTypes[this.#tables.nodes.type[node]!]!
  }

  /** The name of an object's class, of a function, of a script; the text of a string. */
  name(node: number): string {
    return this.string(this.#tables.nodes.name[node]!)
  }

  /** Whether that is an object's name; cheaper than to ask for it. */
  isNamed(node: number, name: string): boolean {
    return this.#tables.nodes.name[node] === this.#numberOf(name)
  }

  /** What V8 calls the object by in the names of edges. */
  id(node: number): number {
    return this.#tables.nodes.id[node]!
  }

  edge(index: number): Edge {
    const type = this.#tables.edgeTypes[this.edgeTypes[index]!]!
    const name = this.edgeNames[index]!
    return { type, name: this.#isIndexed(index) ? name : this.string(name), to: this.to[index]! }
  }

  /** What an object refers to, weak references included. */
  edges(node: number): Edge[] {
    const [from, to] = [this.first[node]!, this.first[node + 1]!]
    return Array.from({ length: to - from }, (_, i) => this.edge(from + i))
  }

  /** Follows strong references by their names, one after the other. */
  get(node: number | undefined, ...names: string[]): number | undefined {
    for (const name of names) {
      const wanted = this.#numberOf(name)
      if (node === undefined || wanted === undefined) return undefined
      node = this.#target(node, wanted)
    }
    return node
  }

  #target(node: number, name: number): number | undefined {
    for (let edge = this.first[node]!; edge < this.first[node + 1]!; edge++) {
      if (this.edgeNames[edge] !== name || this.edgeTypes[edge] === this.weak) continue
      if (!this.#isIndexed(edge)) return this.to[edge]
    }
    return undefined
  }

  #isIndexed(edge: number): boolean {
    const type = this.#tables.edgeTypes[this.edgeTypes[edge]!]!
    return type === 'element' || type === 'hidden'
  }

  /** Where a function, or the function of a suspended call, or the class of an object is written. */
  position(node: number): Position | undefined {
    const { locations, nodeFields } = this.#tables
    if (!this.#located) {
      this.#located = new Uint32Array(this.count)
      for (let row = 0; row < locations.length; row += 4) this.#located[locations[row]! / nodeFields] = row + 1
    }
    const row = this.#located[node]!
    return row === 0 ? undefined : { script: locations[row]!, line: locations[row + 1]!, column: locations[row + 2]! }
  }

  /** The string of a number. */
  string(index: number): string {
    const { bytes, starts } = this.#tables.strings
    const [from, to] = [starts[index]!, starts[index + 1]!]
    const text = Buffer.from(bytes.buffer, from, to - from).toString('latin1')
    // The cut may have gone through an escape.
    const whole = to - from < LONGEST_STRING ? text : text.replace(/(?<!\\)((?:\\\\)*)\\(?:u[\da-f]{0,3})?$/i, '$1')
    return JSON.parse(`"${whole}"`) as string
  }

  /** The strings that contain `part`, which JSON must not need to escape, by their numbers. */
  stringsWith(part: string): Map<number, string> {
    const { bytes, starts, count } = this.#tables.strings
    const all = Buffer.from(bytes.buffer, 0, starts[count])
    const found = new Map<number, string>()
    let index = 0
    for (let at = all.indexOf(part); at >= 0; at = all.indexOf(part, at + 1)) {
      while (starts[index + 1]! <= at) index++
      // What begins in one string and ends in the next is no match.
      if (at + part.length <= starts[index + 1]!) found.set(index, this.string(index))
    }
    return found
  }
  /** The number of a string: to compare numbers is what makes a search through millions of names bearable. */
  #numberOf(name: string): number | undefined {
    if (!this.#numbers.has(name)) {
      const found = [...this.stringsWith(name)].find(([, text]) => text === name)
      this.#numbers.set(name, found?.[0])
    }
    return this.#numbers.get(name)
  }
}
