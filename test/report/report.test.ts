import { stripVTControlCharacters } from 'node:util'
import { describe, expect, test } from 'vitest'
import { auditLine, type AuditReport, reloadLine, type ReloadReport } from '../../plugin/report/report.ts'

const report: ReloadReport = {
  type: 'reload',
  id: 1,
  time: 0,
  cause: ['/app/providers/agents.ts'],
  outcome: 'reloaded',
  failures: [],
  providers: [
    {
      module: '/app/providers/agents.ts',
      name: 'agents',
      from: 4,
      to: 5,
      instances: 1,
      active: 1,
      boundaries: { drained: 2, released: 0, abandoned: 0 },
      abandoned: false
    }
  ],
  ms: { affected: 1, stage: 6.4, close: 2, drain: 210, disable: 0, install: 3.2 }
}

const lineOf = (change: Partial<ReloadReport>) => stripVTControlCharacters(reloadLine({ ...report, ...change }, '/app'))
const kept = report.providers.map(provider => ({ ...provider, to: provider.from }))

describe('the line of a reload', () => {
  test('begins with the outcome and names the generations, the file and the time of the steps', () => {
    expect(lineOf({})).toBe(
      'reloaded agents 4 → 5  providers/agents.ts  stage 6 ms · drain 212 ms (2 boundaries) · install 3 ms'
    )
  })

  test('names the place of an error and that the old version goes on', () => {
    const location = { file: '/app/providers/agents.ts', line: 41, column: 7 }
    const error = { message: 'Unexpected token', step: 'stage' as const, location, frame: '> 41 | x' }
    expect(lineOf({ outcome: 'kept', providers: kept, error })).toBe(
      'kept agents 4  providers/agents.ts:41:7 Unexpected token  (the old version goes on)\n> 41 | x'
    )
    expect(lineOf({ outcome: 'rolled-back', providers: kept, error })).toContain('(the old version is back)')
  })

  test('says why a harness restarted, what was abandoned, and what failed beside', () => {
    const providers = report.providers.map(provider => ({
      ...provider,
      boundaries: { drained: 0, released: 0, abandoned: 1 },
      abandoned: true
    }))
    const line = lineOf({
      outcome: 'restarted',
      reason: { code: 'entry', message: 'the entry changed' },
      providers,
      failures: ['no such port']
    })
    expect(line).toContain('the entry changed · stage 6 ms · drain 212 ms (agents 4 is abandoned)')
    expect(line).toContain('\n  no such port')
  })

  test('shows files outside of the root in full', () => {
    expect(lineOf({ cause: ['/lib/shared.ts'] })).toContain('  /lib/shared.ts  ')
  })
})

describe('the line of an audit', () => {
  const audit: AuditReport = {
    type: 'audit',
    reload: 1,
    module: '/app/providers/agents.ts',
    name: 'agents',
    generation: 4,
    outcome: 'collected',
    instances: { created: 1, collected: 1 },
    storages: { created: 2, collected: 2 },
    stores: { created: 0, collected: 0 },
    forgotten: [],
    shared: [],
    retainers: []
  }
  const lineOf = (changes: Partial<AuditReport>) =>
    stripVTControlCharacters(auditLine({ ...audit, ...changes }, '/app'))

  test('counts what was collected, and what of it was not', () => {
    expect(lineOf({})).toBe('collected agents 4  2 storages, 1 instance')
    expect(lineOf({ stores: { created: 3, collected: 3 } })).toBe(
      'collected agents 4  2 storages, 3 of 3 stores, 1 instance'
    )
    expect(lineOf({ outcome: 'retained', storages: { created: 2, collected: 1 } })).toBe(
      'retained agents 4  1 of 2 storages'
    )
  })

  test('says that a generation whose code serves again is not what was collected', () => {
    expect(lineOf({ serves: true, storages: { created: 0, collected: 0 } })).toBe(
      'collected agents 4  1 instance  of before, its code serves again'
    )
  })

  test('names what was left running, what keeps something, and what was disabled in its place', () => {
    const location = { file: '/app/providers/agents.ts', line: 12, column: 5 }
    expect(lineOf({ outcome: 'retained', retainers: [{ what: 'setInterval', location }, { what: 'socket' }] })).toBe(
      'retained agents 4\n  setInterval  providers/agents.ts:12:5\n  socket'
    )
    expect(lineOf({ forgotten: [location] })).toContain('disabled for it: providers/agents.ts:12:5')
  })
})
