/**
 * Reads a heap snapshot piece by piece: as one string, that of a large heap would be longer than V8 allows. V8 writes the
 * sections in this order: `snapshot` (counts and field names), `nodes`, `edges`, …, `locations`, `strings`.
 */
import { Heap, LONGEST_STRING, type Tables } from './heap.ts'

interface Header {
  node_count: number
  edge_count: number
  meta: { node_fields: string[]; node_types: [string[]]; edge_fields: string[]; edge_types: [string[]] }
}

type Columns = Record<string, Uint8Array | Uint32Array | undefined>

const [QUOTE, BACKSLASH, OPEN, CLOSE, ZERO] = [0x22, 0x5c, 0x5b, 0x5d, 0x30]

/** Takes the chunks of a snapshot in their order; after the last one it has the heap. */
export class HeapReader {
  #header: Header | undefined
  #tables: Tables | undefined
  /** What stands between two sections, the header at first. */
  #text = ''
  #section: 'text' | 'strings' | 'numbers' = 'text'
  /** What becomes of the numbers of the section, and of the one that is being read; -1 between two of them. */
  #put: (value: number) => void = () => {}
  #value = -1
  #depth = 0
  #rows = 0
  /** Of the string that is being read: its length, -1 between two of them, and whether a backslash was last. */
  #length = -1
  #escaped = false

  /** How many of the objects and references were read, from 0 to 1. */
  get progress(): number {
    return this.#header ? Math.min(1, this.#rows / (this.#header.node_count + this.#header.edge_count)) : 0
  }

  write(chunk: Uint8Array): void {
    for (let i = 0; i < chunk.length;) {
      if (this.#section === 'text') i = this.#readText(chunk, i)
      else if (this.#section === 'numbers') i = this.#readNumbers(chunk, i)
      else i = this.#readStrings(chunk, i)
    }
  }

  /** @throws when the snapshot has not ended. */
  end(): Heap {
    if (!this.#tables || this.#tables.strings.count === 0 || this.#section !== 'text')
      throw new Error('the heap snapshot is not complete')
    return new Heap(this.#tables)
  }

  #readText(chunk: Uint8Array, from: number): number {
    const open = chunk.indexOf(OPEN, from)
    this.#text += Buffer.from(chunk.subarray(from, open < 0 ? undefined : open)).toString('latin1')
    if (open < 0) return chunk.length
    const section = /"(\w+)":\s*$/.exec(this.#text)?.[1]
    if (this.#header || section === 'nodes') this.#begin(section)
    // The header has arrays of its own.
    else this.#text += '['
    return open + 1
  }

  #begin(section: string | undefined): void {
    const header = (this.#header ??= parseHeader(this.#text))
    const tables = (this.#tables ??= tablesFor(header))
    const { node_fields, edge_fields } = header.meta
    this.#section = section === 'strings' ? 'strings' : 'numbers'
    if (section === 'nodes') this.#put = this.#table(node_fields, tables.nodes)
    else if (section === 'edges') this.#put = this.#table(edge_fields, tables.edges)
    else if (section === 'locations') this.#put = value => void tables.locations.push(value)
    else this.#put = () => {}
    this.#text = ''
    this.#depth = 1
  }

  #table(fields: string[], columns: Columns): (value: number) => void {
    const targets = fields.map(field => columns[field])
    let column = 0
    let row = 0
    return value => {
      const target = targets[column]
      if (target) target[row] = value
      if (++column < targets.length) return
      column = 0
      row++
      this.#rows++
    }
  }

  #readNumbers(chunk: Uint8Array, from: number): number {
    const put = this.#put
    let value = this.#value
    let i = from
    while (i < chunk.length && this.#depth > 0) {
      const byte = chunk[i++]!
      const digit = byte - ZERO
      if (digit >= 0 && digit <= 9) {
        value = value < 0 ? digit : value * 10 + digit
        continue
      }
      if (value >= 0) put(value)
      value = -1
      if (byte === OPEN) this.#depth++
      else if (byte === CLOSE) this.#depth--
    }
    this.#value = value
    if (this.#depth === 0) this.#section = 'text'
    return i
  }

  #readStrings(chunk: Uint8Array, from: number): number {
    const { strings } = this.#tables!
    reserve(strings, chunk.length)
    const { bytes, starts } = strings
    let at = starts[strings.count]! + Math.max(0, this.#length)
    for (let i = from; i < chunk.length; i++) {
      const byte = chunk[i]!
      if (this.#length < 0) {
        if (byte === QUOTE) this.#length = 0
        else if (byte === CLOSE) {
          this.#section = 'text'
          return i + 1
        }
      } else if (byte === QUOTE && !this.#escaped) {
        starts[++strings.count] = at
        this.#length = -1
      } else {
        this.#escaped = byte === BACKSLASH && !this.#escaped
        if (this.#length >= LONGEST_STRING) continue
        bytes[at++] = byte
        this.#length++
      }
    }
    return chunk.length
  }
}

function parseHeader(text: string): Header {
  return (JSON.parse(text.replace(/,\s*"nodes":\s*$/, '}')) as { snapshot: Header }).snapshot
}

function tablesFor({ node_count, edge_count, meta }: Header): Tables {
  const column = (rows: number) => new Uint32Array(rows)
  return {
    nodeTypes: meta.node_types[0],
    edgeTypes: meta.edge_types[0],
    nodes: {
      type: new Uint8Array(node_count),
      name: column(node_count),
      id: column(node_count),
      edge_count: column(node_count)
    },
    edges: { type: new Uint8Array(edge_count), name_or_index: column(edge_count), to_node: column(edge_count) },
    nodeFields: meta.node_fields.length,
    locations: [],
    strings: { bytes: new Uint8Array(1 << 20), starts: column(1 << 16), count: 0 }
  }
}

/** Makes room for what a chunk of so many bytes may hold at most. */
function reserve(strings: Tables['strings'], bytes: number): void {
  const used = strings.starts[strings.count]! + LONGEST_STRING
  if (used + bytes > strings.bytes.length)
    strings.bytes = copy(strings.bytes, new Uint8Array(2 * strings.bytes.length + bytes))
  // A string has two quotes.
  const count = strings.count + Math.ceil(bytes / 2) + 1
  if (count >= strings.starts.length) strings.starts = copy(strings.starts, new Uint32Array(2 * count))
}

function copy<T extends Uint8Array | Uint32Array>(from: T, to: T): T {
  to.set(from)
  return to
}
