import { readFileSync } from 'node:fs'
import { expect, test } from 'vitest'
import { affected } from '../../plugin/reload/affected.ts'
import { OUTCOMES, REASONS } from '../../plugin/report/report.ts'

/** The rows of the table under "How a save can end", by column. */
function rows(): { save: string; outcome: string; step: string }[] {
  const text = readFileSync(new URL('../../docs/reload.md', import.meta.url), 'utf8')
  const table = text
    .slice(text.indexOf('## How a save can end'))
    .split('\n')
    .filter(line => line.startsWith('| '))
  return table.slice(2).map(line => {
    const [save = '', outcome = '', step = ''] = line
      .slice(1, -1)
      .split('|')
      .map(cell => cell.replaceAll('`', '').trim())
    return { save, outcome, step }
  })
}

test('the table of how a save can end names every outcome of the code, and no other', () => {
  expect([...new Set(rows().map(({ outcome }) => outcome))].toSorted()).toEqual(OUTCOMES.toSorted())
})

test('it names every reason to ignore a save, in the words of the report', () => {
  const ignored = rows().filter(({ outcome }) => outcome === 'ignored')
  expect(ignored.map(({ save }) => save).toSorted()).toEqual([REASONS.aside, REASONS.same, REASONS.unused].toSorted())
})

test('it names every reason to restart, in the words of the report', () => {
  const graph = { entry: 'e', accepts: () => false, isProvider: () => false, composes: () => false }
  const reasons = [
    affected(['e'], { ...graph, importers: () => [] }),
    affected(['a'], { ...graph, importers: id => (id === 'a' ? ['e'] : []) })
  ].map(plan => (plan.kind === 'restart' ? plan.reason.message.split(':')[0] : plan.kind))
  const restarted = rows().filter(({ outcome }) => outcome === 'restarted')
  expect(restarted.map(({ save }) => save)).toEqual(reasons)
})

test('it says which step failed, for every outcome that a failure has', () => {
  for (const { outcome, step } of rows()) {
    expect([outcome, step]).toEqual([outcome, { kept: 'stage', 'rolled-back': 'install' }[outcome] ?? ''])
  }
})
