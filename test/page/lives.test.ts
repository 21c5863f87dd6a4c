/** The life of a generation, read from what was told of it. */
import { expect, test } from 'vitest'
import { lives } from '../../plugin/page/client/lives.ts'
import type { AuditReport, ProviderReport, ReloadReport } from '../../plugin/index.ts'
import type { FiberNode } from '../../plugin/page/server/protocol.ts'

const boundaries = { drained: 2, released: 0, abandoned: 0 }
const reload = (time: number, from: number, to: number | null, more: Partial<ProviderReport> = {}) =>
  ({
    time,
    outcome: 'reloaded',
    providers: [{ module: '/a.ts', name: 'a', from, to, boundaries, abandoned: false, ...more }],
    ms: { drain: 7 }
  }) as unknown as ReloadReport
const audit = (generation: number, outcome: AuditReport['outcome']) =>
  ({ module: '/a.ts', name: 'a', generation, outcome, retainers: [] }) as unknown as AuditReport
const runs = (generation: number) =>
  [{ key: 'a', name: 'a', module: '/a.ts', generation, children: [] }] as unknown as FiberNode[]
const told = { reloads: [], audits: [], storages: [], fibers: [] }
const rows = (more: Partial<Parameters<typeof lives>[0]>) =>
  lives({ ...told, ...more }).map(({ generation, end, came, went, drain }) => [generation, end, came, went, drain?.ms])

test('one that came with the harness and was replaced has a drain and a verdict', () => {
  const reloads = [reload(100, 1, 2), reload(300, 2, 3)]
  expect(rows({ reloads, audits: [audit(1, 'collected'), audit(2, 'retained')], fibers: runs(3) })).toEqual([
    [2, 'retained', 100, 300, 7],
    [3, 'runs', 300, undefined, undefined],
    [1, 'collected', undefined, 100, 7]
  ])
})

test('one that nobody has looked at is retired, and one that was removed has no successor', () => {
  expect(rows({ reloads: [reload(100, 1, null)] })).toEqual([[1, 'retired', undefined, 100, 7]])
})

test('one that was kept has not gone', () => {
  expect(rows({ reloads: [reload(100, 1, 1)], fibers: runs(1) })).toEqual([
    [1, 'runs', undefined, undefined, undefined]
  ])
})

test('one whose code serves again runs, whatever became of its first instances', () => {
  expect(rows({ audits: [{ ...audit(1, 'collected'), serves: true }], fibers: runs(1) })).toEqual([
    [1, 'runs', undefined, undefined, undefined]
  ])
})
