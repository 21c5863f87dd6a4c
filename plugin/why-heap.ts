/**
 * A V8 heap snapshot, read piece by piece into typed arrays: as one string, that of a large heap would be longer than V8
 * allows. The order of the sections is V8's: `snapshot`, `nodes`, `edges`, …, `locations`, `strings`.
 */

interface Header {
  node_count: number
  edge_count: number
  meta: { node_fields: string[]; node_types: [string[]]; edge_fields: string[]; edge_types: [string[]] }
}

/** One reference: what it is called, and where it leads. */
export interface Edge {
  /** Its index among all edges of the heap. */
  index: number
  type: string
  /** The name of a property or variable, or an index. */
  name: string | number
  to: number
}

/** Beyond so many bytes a string is cut off: sources of scripts are strings too. */
const LONGEST = 1024

/** The objects of a heap, by number; 0 is the root. */
export class Heap {
  readonly count: number
  /** Per object, its first edge; those of object `n` end where those of `n + 1` begin. */
  readonly first: Uint32Array
  /** Per edge, the object that it leads to. */
  readonly to: Uint32Array
  readonly #nodeTypes: string[]
  readonly #edgeTypes: string[]
  readonly #tables: Tables

  constructor(header: Header, tables: Tables) {
    const { node_fields, node_types, edge_types } = header.meta
    this.count = header.node_count
    this.#nodeTypes = node_types[0]
    this.#edgeTypes = edge_types[0]
    this.#tables = tables
    this.to = tables.edges['to_node']!
    for (let edge = 0; edge < this.to.length; edge++) this.to[edge]! /= node_fields.length
    const edges = tables.nodes['edge_count']!
    this.first = new Uint32Array(this.count + 1)
    for (let node = 0; node < this.count; node++) this.first[node + 1] = this.first[node]! + edges[node]!
  }

  /** V8's kind of an object: `object`, `closure`, `array`, `synthetic`, … */
  type(node: number): string {
    return this.#nodeTypes[this.#tables.nodes['type']![node]!]!
  }

  /** The name of an object's class, of a function, of a script, or the text of a string. */
  name(node: number): string {
    return this.string(this.#tables.nodes['name']![node]!)
  }

  id(node: number): number {
    return this.#tables.nodes['id']![node]!
  }

  edgeType(edge: number): string {
    return this.#edgeTypes[this.#tables.edges['type']![edge]!]!
  }

  /** The index of an edge's name among the strings; `undefined` for an edge that has an index for a name. */
  edgeName(edge: number): number | undefined {
    const type = this.edgeType(edge)
    return type === 'element' || type === 'hidden' ? undefined : this.#tables.edges['name_or_index']![edge]!
  }

  edge(index: number): Edge {
    const name = this.edgeName(index)
    const { name_or_index } = this.#tables.edges
    return {
      index,
      type: this.edgeType(index),
      name: name === undefined ? name_or_index![index]! : this.string(name),
      to: this.to[index]!
    }
  }

  edges(node: number): Edge[] {
    return Array.from({ length: this.first[node + 1]! - this.first[node]! }, (_, i) => this.edge(this.first[node]! + i))
  }

  /** Follows edges by their names, one after the other. */
  get(node: number | undefined, ...names: string[]): number | undefined {
    for (const wanted of names) {
      if (node === undefined) return undefined
      node = this.edges(node).find(({ name, type }) => name === wanted && type !== 'weak')?.to
    }
    return node
  }

  /** Where a function is written, or the constructor of an object: the id of the script, line and column from 0. */
  location(node: number): { script: number; line: number; column: number } | undefined {
    const { locations } = this.#tables
    const row = (this.#rows ??= rowsOf(locations, this.#tables.nodeFields, this.count))[node]!
    if (row === 0) return undefined
    const [, script, line, column] = locations.slice(row - 1, row + 3)
    return { script: script!, line: line!, column: column! }
  }
  #rows: Uint32Array | undefined

  string(index: number): string {
    const { bytes, starts } = this.#tables.strings
    return decode(bytes.subarray(starts[index], starts[index + 1]))
  }

  /** The strings that contain `part`, which is ASCII and neither quoted nor escaped in JSON, with their indexes. */
  stringsWith(part: string): [index: number, string: string][] {
    const { bytes, starts, count } = this.#tables.strings
    const all = Buffer.from(bytes.buffer, bytes.byteOffset, starts[count])
    const found: [number, string][] = []
    let index = 0
    for (let at = all.indexOf(part); at >= 0; at = all.indexOf(part, starts[index + 1])) {
      while (starts[index + 1]! <= at) index++
      // A match that begins in one string and ends in the next is none.
      if (at + part.length <= starts[index + 1]!) found.push([index, this.string(index)])
    }
    return found
  }
}

interface Tables {
  nodeFields: number
  nodes: Record<string, Uint32Array>
  edges: Record<string, Uint32Array>
  /** Four numbers each: object, script, line, column. */
  locations: number[]
  strings: { bytes: Uint8Array; starts: Uint32Array; count: number }
}

function rowsOf(locations: number[], nodeFields: number, nodes: number): Uint32Array {
  const rows = new Uint32Array(nodes)
  for (let row = 0; row < locations.length; row += 4) rows[locations[row]! / nodeFields] = row + 1
  return rows
}

/** V8 writes ASCII with JSON's escapes; one that the cut went through is dropped. */
function decode(bytes: Uint8Array): string {
  const text = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.length).toString('latin1')
  const whole = bytes.length < LONGEST ? text : text.replace(/(?<!\\)((?:\\\\)*)\\(?:u[\da-f]{0,3})?$/i, '$1')
  return JSON.parse(`"${whole}"`) as string
}

const [COMMA, QUOTE, BACKSLASH, OPEN, CLOSE, ZERO] = [...',"\\[]0'].map(char => char.charCodeAt(0)) as number[]

/** Reads a snapshot. Give it the chunks in their order, then ask for the heap. */
export class HeapReader {
  #header: Header | undefined
  #tables: Tables | undefined
  /** Text between the sections, the whole header at first. */
  #text = ''
  /** What is read now: the text between sections, a section's numbers, or the strings. */
  #section: 'text' | 'nodes' | 'edges' | 'locations' | 'strings' | 'ignored' = 'text'
  #put: (value: number) => void = () => {}
  #done = 0
  #value = -1
  #depth = 0
  #inString = false
  #escaped = false
  #length = 0

  /** How much of the objects and references has been read, from 0 to 1. */
  get progress(): number {
    const { node_count = 1, edge_count = 0 } = this.#header ?? {}
    return Math.min(1, this.#done / (node_count + edge_count))
  }

  write(chunk: Uint8Array): void {
    for (let i = 0; i < chunk.length; ) {
      if (this.#section === 'text') i = this.#readText(chunk, i)
      else if (this.#section === 'strings') i = this.#readStrings(chunk, i)
      else i = this.#readNumbers(chunk, i)
    }
  }

  /** @throws when the snapshot has not ended. */
  end(): Heap {
    const strings = this.#tables?.strings
    if (!this.#header || !strings || strings.count === 0) throw new Error('the heap snapshot is not complete')
    return new Heap(this.#header, this.#tables!)
  }

  #readText(chunk: Uint8Array, from: number): number {
    const open = chunk.indexOf(OPEN!, from)
    const to = open < 0 ? chunk.length : open
    this.#text += Buffer.from(chunk.buffer, chunk.byteOffset + from, to - from).toString('latin1')
    if (open < 0) return to
    // The header holds arrays of its own.
    const section = /"(\w+)":$/.exec(this.#text)?.[1]
    if (!this.#header && section !== 'nodes') this.#text += '['
    else this.#begin(section)
    return open + 1
  }

  #begin(section: string | undefined): void {
    if (!this.#header) {
      const text = this.#text.replace(/,\s*"nodes":$/, '}')
      this.#header = (JSON.parse(text) as { snapshot: Header }).snapshot
      this.#tables = tablesFor(this.#header)
    }
    const { nodes, edges, locations } = this.#tables!
    const { node_fields, edge_fields } = this.#header.meta
    const known = section === 'nodes' || section === 'edges' || section === 'locations' || section === 'strings'
    this.#section = known ? section : 'ignored'
    if (section === 'nodes') this.#put = this.#rows(node_fields.map(field => nodes[field]))
    else if (section === 'edges') this.#put = this.#rows(edge_fields.map(field => edges[field]))
    else if (section === 'locations') this.#put = value => void locations.push(value)
    else this.#put = () => {}
    this.#text = ''
    this.#depth = 1
  }

  #rows(columns: (Uint32Array | undefined)[]): (value: number) => void {
    let column = 0
    let row = 0
    return value => {
      const values = columns[column]
      if (values) values[row] = value
      if (++column < columns.length) return
      column = 0
      row++
      this.#done++
    }
  }

  #readNumbers(chunk: Uint8Array, from: number): number {
    const put = this.#put
    // None yet.
    let value = this.#value
    let i = from
    for (; i < chunk.length && this.#depth > 0; i++) {
      const digit = chunk[i]! - ZERO!
      if (digit >= 0 && digit <= 9) {
        value = value < 0 ? digit : value * 10 + digit
        continue
      }
      if (value >= 0) put(value)
      value = -1
      if (chunk[i] === OPEN) this.#depth++
      else if (chunk[i] === CLOSE && --this.#depth === 0) this.#section = 'text'
    }
    this.#value = value
    return i
  }

  #readStrings(chunk: Uint8Array, from: number): number {
    const { strings } = this.#tables!
    reserve(strings, chunk.length)
    const { bytes, starts } = strings
    let at = starts[strings.count]! + this.#length
    let i = from
    for (; i < chunk.length; i++) {
      const byte = chunk[i]!
      if (!this.#inString) {
        if (byte === QUOTE) this.#inString = true
        else if (byte === CLOSE) break
      } else if (byte === QUOTE && !this.#escaped) {
        this.#inString = false
        this.#length = 0
        starts[++strings.count] = at
      } else {
        this.#escaped = byte === BACKSLASH && !this.#escaped
        if (this.#length >= LONGEST) continue
        bytes[at++] = byte
        this.#length++
      }
    }
    if (i < chunk.length) this.#section = 'text'
    return i < chunk.length ? i + 1 : i
  }
}

function tablesFor({ node_count, edge_count }: Header): Tables {
  const columns = (names: string[], rows: number) =>
    Object.fromEntries(names.map(name => [name, new Uint32Array(rows)]))
  return {
    nodeFields: 0,
    nodes: columns(['type', 'name', 'id', 'edge_count'], node_count),
    edges: columns(['type', 'name_or_index', 'to_node'], edge_count),
    locations: [],
    strings: { bytes: new Uint8Array(1 << 20), starts: new Uint32Array(1 << 16), count: 0 }
  }
}

/** Makes room for what a chunk may hold at most. */
function reserve(strings: Tables['strings'], bytes: number): void {
  const end = strings.starts[strings.count]! + LONGEST
  if (end + bytes > strings.bytes.length) strings.bytes = grown(strings.bytes, end + bytes)
  // At least two quotes and a comma each, but for the last.
  const count = strings.count + bytes / 3 + 2
  if (count > strings.starts.length) strings.starts = grown(strings.starts, Math.ceil(count))
}

function grown<T extends Uint8Array | Uint32Array>(array: T, length: number): T {
  const larger = new (array.constructor as new (length: number) => T)(Math.max(array.length * 2, length))
  larger.set(array)
  return larger
}
