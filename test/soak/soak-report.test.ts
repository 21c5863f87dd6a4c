import { stripVTControlCharacters } from 'node:util'
import { describe, expect, test } from 'vitest'
import { progressBar } from '../../plugin/cli/progress.ts'
import type { AuditReport, ReloadReport } from '../../plugin/report/report.ts'
import { type SoakReport, vagueness, verdict } from '../../plugin/soak/report.ts'
import { soakTable } from '../../plugin/soak/table.ts'
import { Tally } from '../../plugin/soak/tally.ts'
import { heapSlopes, slopeOf } from '../../plugin/soak/slope.ts'

const clean: Omit<SoakReport, 'failed' | 'vague'> = {
  type: 'soak',
  node: '24.0.0',
  root: '/app',
  file: '/app/src/agents.ts',
  times: 100,
  seconds: 12.3,
  reload: { median: 12.5, p95: 30 },
  outcomes: { reloaded: 100 },
  errors: [],
  failures: [],
  instances: { created: 100, collected: 100 },
  storages: { created: 200, collected: 200 },
  stores: { created: 300, collected: 300 },
  alive: { start: 2, end: 2, stale: 0 },
  retained: [],
  whys: [],
  heap: {
    start: 14_000_000,
    end: 14_100_000,
    background: { value: 100, error: 50 },
    total: { value: 300, error: 100 },
    perReload: { value: 290, error: 105 }
  },
  cost: {
    start: { boundary: 1000, await: 100 },
    end: { boundary: 1010, await: 90 },
    ratio: { boundary: 1.01, await: 0.9 }
  },
  grown: {},
  limits: { maxHeapSlope: 1024, maxBoundaryRatio: 1.1 }
}

const retained = { module: '/app/src/agents.ts', name: 'agents', generation: 7, outcome: 'retained' as const }

describe('the verdict of a soak', () => {
  test.each<[string, Partial<SoakReport>, string[]]>([
    ['nothing of it', {}, []],
    [
      'a reload that was rolled back',
      { outcomes: { reloaded: 99, 'rolled-back': 1 } },
      ['1 of 100 reloads did not succeed']
    ],
    ['a restart, which is a success', { outcomes: { restarted: 100 } }, []],
    ['a retained generation', { retained: [{ ...retained, retainers: [] }] }, ['1 retired generation not released']],
    [
      'a storage that no verdict speaks of',
      { alive: { start: 2, end: 3, stale: 1 } },
      ['1 storage of generations that run no more']
    ],
    [
      'a slope that is above the limit for sure',
      { heap: { ...clean.heap, perReload: { value: 2000, error: 500 } } },
      ['the heap grows by 2000 B a reload, limit 1024 B']
    ],
    ['a slope that may be below it', { heap: { ...clean.heap, perReload: { value: 2000, error: 1000 } } }, []],
    [
      'an uncertain slope that is above it beyond doubt',
      { heap: { ...clean.heap, perReload: { value: 160_000, error: 2600 } } },
      ['the heap grows by 160.0 kB a reload, limit 1024 B']
    ],
    [
      'a slope that is below it beyond doubt',
      { heap: { ...clean.heap, perReload: { value: -5000, error: 3000 } } },
      []
    ],
    ['a slope that nobody knows', { heap: { ...clean.heap, perReload: null } }, []],
    [
      'a boundary that became dearer',
      { cost: { ...clean.cost, ratio: { boundary: 1.5, await: 1 } } },
      ['a boundary costs 1.50 times as much, limit 1.1']
    ],
    [
      'an await that became dearer',
      { cost: { ...clean.cost, ratio: { boundary: 1, await: 2 } } },
      ['an await costs 2.00 times as much, limit 1.1']
    ],
    ['timers that each reload leaves', { grown: { Timeout: 10 } }, ['Timeout: 10 more than at the start']],
    ['a socket more or less', { grown: { TCPSocketWrap: 2 } }, []]
  ])('fails for: %s', (_, part, failed) => {
    expect(verdict({ ...clean, ...part })).toEqual(failed)
  })
})

test('the table says where a slope is less certain than its limit', () => {
  // What Node 20 fills its caches with in 20 reloads of a harness that leaks nothing.
  const report = { ...clean, times: 20, heap: { ...clean.heap, perReload: { value: 13_800, error: 5200 } } }
  expect(verdict(report)).toEqual([])
  const table = stripVTControlCharacters(soakTable({ ...report, failed: [], vague: vagueness(report) }))
  expect(table).toContain('a reload  13.8 kB ± 5200 B, too vague for the limit\n')
  expect(table).toContain('too vague: the heap grows by 13.8 kB ± 5200 B a reload, limit 1024 B. Use `--times 300`')
})

test('the table shows what was measured, and what keeps what', () => {
  const report = {
    ...clean,
    instances: { created: 100, collected: 98 },
    errors: ['kept: src/agents.ts:1:1 Unexpected token'],
    grown: { Timeout: 2 },
    retained: [6, 7].map(generation => ({
      ...retained,
      generation,
      retainers: [{ what: 'setInterval', location: { file: '/app/src/agents.ts', line: 12, column: 5 } }]
    }))
  }
  expect(stripVTControlCharacters(soakTable({ ...report, failed: verdict(report), vague: vagueness(report) }))).toBe(
    `
soak of src/agents.ts, 100 reloads in 12.3 s, Node 24.0.0
  reloads     100 reloaded
              12.5 ms each, 95 of 100 under 30 ms
  instances   100 retired, 2 of them alive
  storages    200 retired, 0 of them alive; 2 → 2 in use
  stores      300 retired, 0 of them alive
  heap        14.0 MB → 14.1 MB
    a reload  290 B ± 105 B
              without reloads 100 B ± 50 B a second, which is taken off
  boundary    1000 → 1010 ns, × 1.01
  await       100 → 90 ns, × 0.90
  grown       Timeout +2
  kept: src/agents.ts:1:1 Unexpected token
  retained agents 6, retained agents 7
    2 × setInterval  src/agents.ts:12:5
failed: 2 retired generations not released`.trimStart()
  )
})

describe('a tally', () => {
  const audit = (generation: number, outcome: AuditReport['outcome'], collected: number): AuditReport => ({
    type: 'audit',
    reload: generation,
    module: '/app/agents.ts',
    name: 'agents',
    generation,
    outcome,
    instances: { created: 1, collected },
    storages: { created: 2, collected: 2 * collected },
    stores: { created: 0, collected: 0 },
    forgotten: [],
    shared: [],
    retainers: []
  })
  const reload = (id: number, ms: number, more: Partial<ReloadReport> = {}): ReloadReport => ({
    type: 'reload',
    id,
    time: 0,
    cause: [],
    outcome: 'reloaded',
    failures: [],
    providers: [],
    ms: { stage: ms },
    ...more
  })

  test('counts the last verdict on a generation', () => {
    const tally = new Tally(2)
    tally.audit(audit(1, 'retained', 0))
    tally.audit(audit(2, 'pending', 0))
    tally.audit(audit(1, 'collected', 1))
    expect(tally.summary()).toMatchObject({
      instances: { created: 2, collected: 1 },
      storages: { created: 4, collected: 2 },
      retained: [{ generation: 2, outcome: 'pending' }]
    })
  })

  test('tells each thing that went wrong once, and how long the reloads took', () => {
    const tally = new Tally(20)
    for (let id = 1; id <= 18; id++) tally.reload(reload(id, id))
    const failures = ['process has 2 listeners for "SIGUSR2", 1 more than before']
    tally.reload(reload(19, 19, { failures }))
    tally.reload(reload(20, 20, { failures, outcome: 'kept', error: { message: 'no', step: 'stage' } }))
    expect(tally.summary()).toMatchObject({
      outcomes: { reloaded: 19, kept: 1 },
      errors: ['kept: no'],
      failures: ['process has # listeners for "SIGUSR2", # more than before'],
      reload: { median: 11, p95: 20 }
    })
  })
})

describe('a slope', () => {
  test('of points on a line is exact', () => {
    expect(
      slopeOf([
        [0, 5],
        [1, 7],
        [2, 9],
        [4, 13]
      ])
    ).toEqual({ value: 2, error: 0 })
  })

  test('of points that scatter has an error that covers the truth', () => {
    const noise = [3, -3, 2, -2, 3, -3, 1, -1, 2, -2]
    const { value, error } = slopeOf(noise.map((off, x) => [x, 10 * x + off]))!
    expect(Math.abs(value - 10)).toBeLessThan(error)
    expect(error).toBeLessThan(1)
  })

  test('of too few points, or of points above each other, is not known', () => {
    expect(
      slopeOf([
        [0, 1],
        [1, 2]
      ])
    ).toBeUndefined()
    expect(
      slopeOf([
        [1, 1],
        [1, 2],
        [1, 3]
      ])
    ).toBeUndefined()
  })
})

describe('the slope of the heap', () => {
  const soak = (times: number, heap: (reloads: number, seconds: number) => number) =>
    Array.from({ length: 50 }, (_, i) => {
      const reloads = ((i + 1) * times) / 50
      return { reloads, seconds: reloads / 10, heap: heap(reloads, reloads / 10) }
    })
  const alone = (perSecond: number): [number, number][] =>
    Array.from({ length: 16 }, (_, i) => [i / 4, (perSecond * i) / 4])

  test('is without what the same time alone adds, and without the first hundred', () => {
    const points = soak(1000, (reloads, seconds) => Math.min(reloads, 100) * 5000 + reloads * 300 + seconds * 2000)
    const { background, total, perReload } = heapSlopes(alone(2000), points)
    expect([background!.value, total!.value, perReload!.value].map(Math.round)).toEqual([2000, 500, 300])
    expect(perReload!.error).toBeLessThan(1)
  })

  test('is less certain where the first hundred is all there is', () => {
    const { perReload } = heapSlopes(
      alone(0),
      soak(50, reloads => reloads * 1500)
    )
    expect([perReload!.value, perReload!.error].map(Math.round)).toEqual([1500, 2000])
  })

  test('is not known from a few looks', () => {
    expect(heapSlopes(alone(0), soak(1000, reloads => reloads).slice(0, 9)).perReload).toBeNull()
  })
})

describe('a progress bar', () => {
  const bar = (isTTY: boolean) => {
    const written: string[] = []
    const bar = progressBar({ isTTY, write: text => written.push(stripVTControlCharacters(text)) })
    bar.show('reloading', 0.5, '5 of 10')
    // Too soon to be seen.
    bar.show('reloading', 0.6, '6 of 10')
    bar.clear()
    return written
  }

  test('is one line of a terminal', () => {
    expect(bar(true)).toEqual([`\r${'█'.repeat(14)}${'░'.repeat(14)} reloading 5 of 10`, '\r'])
  })

  test('is not there without one', () => {
    expect(bar(false)).toEqual([])
  })
})
