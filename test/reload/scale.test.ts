import { join } from 'node:path'
import { describe, expect, test } from 'vitest'
import { createApp, seq } from '../fixtures/app.ts'
import { composing, service } from '../fixtures/field-fixture.ts'

describe('a graph of 1,000 modules', () => {
  const leaf = (id: number, uses: number[]) =>
    `
    ${uses.map(other => `import { value as v${other} } from './m${other}.ts'`).join('\n')}
    seq.push('m${id}')
    export const value = [${[id, ...uses.map(other => `...v${other}`)].join()}].flat()`
      .replace('[', '[[')
      .replace('].flat', ']].flat')

  test('has only the affected ones evaluated when a leaf is saved', async () => {
    // Ten providers with a chain of ten modules each, of which every one imports nine leaves of its own.
    const files: Record<string, string> = {}
    const providers: string[] = []
    for (let p = 0; p < 10; p++) {
      for (let c = 0; c < 10; c++) {
        const id = p * 100 + c * 10
        const leaves = Array.from({ length: 9 }, (_, i) => id + 1 + i)
        const next = c < 9 ? [id + 10] : []
        for (const other of leaves) files[`m${other}.ts`] = `seq.push('m${other}')\nexport const value = [${other}]`
        files[`m${id}.ts`] = leaf(id, [...leaves, ...next])
      }
      providers.push(`./p${p}.ts`)
      files[`p${p}.ts`] = service(
        `p${p}`,
        '',
        `import { value } from './m${p * 100}.ts'\nexport const count = value.length`
      )
    }
    const app = await createApp({ ...files, 'harness.ts': composing(...providers) })
    await app.next('ready')
    expect(seq.filter(line => line.startsWith('m'))).toHaveLength(1000)
    seq.length = 0
    const report = await app.edit('m355.ts', source => `${source} // leaf\nexport const changed = 1`)
    expect(report).toMatchObject({ outcome: 'reloaded', providers: [{ module: join(app.root, 'p3.ts') }] })
    expect(seq).toEqual(['m355', 'm350', 'm340', 'm330', 'm320', 'm310', 'm300', 'p3 1 down', 'p3 1 up'])
  }, 30_000)
})
