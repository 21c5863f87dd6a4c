import { once } from 'node:events'
import { Worker } from 'node:worker_threads'
import { beforeAll, describe, expect, test } from 'vitest'
import { LONGEST_STRING } from '../../plugin/why/heap.ts'
import { HeapReader } from '../../plugin/why/reader.ts'

/** The heap of a thread of its own, which is small; with names that JSON escapes. */
async function snapshot(): Promise<Buffer> {
  const code = `
    globalThis.odd = { 'quote " and \\\\ backslash': 1n, 'ü 漢 \\u0007': 'text', long: '\\n'.repeat(${LONGEST_STRING}) + 'x' }
    require('node:worker_threads').parentPort.on('message', () => odd)`
  const worker = new Worker(code, { eval: true })
  await once(worker, 'online')
  const chunks: Buffer[] = []
  for await (const chunk of await worker.getHeapSnapshot()) chunks.push(chunk as Buffer)
  await worker.terminate()
  return Buffer.concat(chunks)
}

function read(bytes: Buffer, size: number) {
  const reader = new HeapReader()
  for (let at = 0; at < bytes.length; at += size) reader.write(bytes.subarray(at, at + size))
  return reader
}

describe('a heap snapshot', () => {
  let bytes: Buffer
  beforeAll(async () => void (bytes = await snapshot()))

  test.each([7, 1000, 65_536, Infinity])('read in pieces of %d bytes is what JSON.parse reads', size => {
    const { snapshot, nodes, edges, locations, strings } = JSON.parse(bytes.toString()) as Record<string, any>
    const { node_fields, node_types, edge_types } = snapshot.meta
    const reader = read(bytes, Math.min(size, bytes.length))
    const heap = reader.end()
    expect(reader.progress).toBe(1)
    expect(heap.count).toBe(snapshot.node_count)
    const differs: unknown[] = []
    const same = (actual: unknown, expected: unknown, what: string) => {
      const cut = typeof expected === 'string' && expected.length > LONGEST_STRING / 6
      if (
        cut ? !expected.startsWith(String(actual)) || String(actual).length < LONGEST_STRING / 7 : actual !== expected
      )
        differs.push({ what, actual, expected })
    }
    let edge = 0
    for (let node = 0; node < heap.count; node++) {
      const at = node * node_fields.length
      same(heap.type(node), node_types[0][nodes[at]], 'type')
      same(heap.name(node), strings[nodes[at + 1]], 'name')
      same(heap.id(node), nodes[at + 2], 'id')
      for (const { type, name, to } of heap.edges(node)) {
        const [kind, label, target] = edges.slice(edge, edge + 3)
        same(type, edge_types[0][kind], 'type of an edge')
        same(name, type === 'element' || type === 'hidden' ? label : strings[label], 'name of an edge')
        same(to * node_fields.length, target, 'target of an edge')
        edge += 3
      }
    }
    for (let row = 0; row < locations.length; row += 4)
      same(
        JSON.stringify(heap.position(locations[row] / node_fields.length)),
        JSON.stringify({ script: locations[row + 1], line: locations[row + 2], column: locations[row + 3] }),
        'location'
      )
    expect(edge).toBe(edges.length)
    expect(differs).toEqual([])
  })

  test('has its strings found by a part of them, and by nothing that spans two', () => {
    const heap = read(bytes, 65_536).end()
    const { strings } = JSON.parse(bytes.toString()) as { strings: string[] }
    const expected = strings.flatMap((text, i) => (text.slice(0, 100).includes('backslash') ? [[i, text]] : []))
    expect([...heap.stringsWith('backslash')].filter(([, text]) => text.length < 100)).toEqual(
      expected.filter(([, text]) => String(text).length < 100)
    )
    expect(heap.stringsWith(`${strings[5]}${strings[6]}`).size).toBe(0)
  })

  test('that has not ended is refused', () => {
    expect(() => read(bytes.subarray(0, -2), 65_536).end()).toThrow('the heap snapshot is not complete')
  })
})
