import { describe, expect, test } from 'vitest'
import { affected, type ModuleGraph } from '../../plugin/reload/affected.ts'

/** `imports` reads "a.ts imports b.ts"; `applies` reads "the plugin of harness.ts is the parent of a fiber of agents.ts". */
function graph(imports: Record<string, string[]>, providers: string[], applies: Record<string, string[]>): ModuleGraph {
  return {
    entry: 'harness.ts',
    accepts: () => false,
    importers: id => Object.keys(imports).filter(importer => imports[importer]!.includes(id)),
    isProvider: id => id === 'harness.ts' || providers.includes(id),
    composes: (importer, provider) => applies[importer]?.includes(provider) ?? false
  }
}

const cases: [name: string, graph: ModuleGraph, changed: string[], modules: string[], providers: string[]][] = [
  [
    'a provider that the entry applies is replaced alone',
    graph({ 'harness.ts': ['agents.ts', 'tools.ts'] }, ['agents.ts', 'tools.ts'], { 'harness.ts': ['agents.ts'] }),
    ['agents.ts'],
    ['agents.ts'],
    ['agents.ts']
  ],
  [
    'a helper is replaced with the provider that imports it',
    graph({ 'harness.ts': ['agents.ts'], 'agents.ts': ['helper.ts'] }, ['agents.ts'], { 'harness.ts': ['agents.ts'] }),
    ['helper.ts'],
    ['helper.ts', 'agents.ts'],
    ['agents.ts']
  ],
  [
    'a leaf that two providers share replaces both and no sibling',
    graph(
      { 'harness.ts': ['a.ts', 'b.ts', 'c.ts'], 'a.ts': ['leaf.ts'], 'b.ts': ['leaf.ts'] },
      ['a.ts', 'b.ts', 'c.ts'],
      {}
    ),
    ['leaf.ts'],
    ['leaf.ts', 'a.ts', 'b.ts'],
    ['a.ts', 'b.ts']
  ],
  [
    'a provider that extends a class of the changed one is replaced too, with the modules between',
    graph(
      { 'harness.ts': ['base.ts', 'derived.ts'], 'derived.ts': ['between.ts'], 'between.ts': ['base.ts'] },
      ['base.ts', 'derived.ts'],
      { 'harness.ts': ['base.ts', 'derived.ts'] }
    ),
    ['base.ts'],
    ['base.ts', 'derived.ts', 'between.ts'],
    ['base.ts', 'derived.ts']
  ],
  [
    'a barrel between a provider and the entry is left as it is',
    graph({ 'harness.ts': ['index.ts'], 'index.ts': ['agents.ts'] }, ['agents.ts'], { 'harness.ts': ['agents.ts'] }),
    ['agents.ts'],
    ['agents.ts'],
    ['agents.ts']
  ],
  [
    'a provider that only applies another is not replaced with it',
    graph({ 'harness.ts': ['parent.ts'], 'parent.ts': ['child.ts'] }, ['parent.ts', 'child.ts'], {
      'parent.ts': ['child.ts']
    }),
    ['child.ts'],
    ['child.ts'],
    ['child.ts']
  ],
  [
    'a provider that applies another through a barrel is not replaced with it',
    graph(
      { 'harness.ts': ['parent.ts'], 'parent.ts': ['index.ts'], 'index.ts': ['child.ts'] },
      ['parent.ts', 'child.ts'],
      { 'parent.ts': ['child.ts'] }
    ),
    ['child.ts'],
    ['child.ts'],
    ['child.ts']
  ],
  [
    'two modules of a cycle are replaced once each',
    graph({ 'harness.ts': ['a.ts'], 'a.ts': ['b.ts'], 'b.ts': ['a.ts'] }, ['a.ts'], { 'harness.ts': ['a.ts'] }),
    ['b.ts'],
    ['b.ts', 'a.ts'],
    ['a.ts']
  ],
  [
    'users of users are found, through a cycle between them',
    graph(
      {
        'harness.ts': ['a.ts', 'c.ts'],
        'b.ts': ['a.ts', 'x.ts'],
        'x.ts': ['b.ts'],
        'c.ts': ['x.ts'],
        'd.ts': ['c.ts']
      },
      ['a.ts', 'c.ts', 'd.ts'],
      {}
    ),
    ['a.ts'],
    ['a.ts', 'b.ts', 'x.ts', 'c.ts', 'd.ts'],
    ['a.ts', 'c.ts', 'd.ts']
  ]
]

describe('affected', () => {
  test.each(cases)('%s', (_, walked, changed, modules, providers) => {
    const plan = affected(changed, walked)
    if (plan.kind !== 'reload') throw new Error(`plan is ${plan.kind}`)
    expect([...plan.modules].toSorted()).toEqual(modules.toSorted())
    expect([...plan.providers].toSorted()).toEqual(providers.toSorted())
  })

  test('a changed entry restarts the harness', () => {
    expect(affected(['harness.ts'], graph({}, [], {}))).toEqual({
      kind: 'restart',
      reason: { code: 'entry', message: 'the entry changed' }
    })
  })

  test('a module that the entry uses without a provider between restarts the harness and shows the path', () => {
    const walked = graph({ 'harness.ts': ['config.ts'], 'config.ts': ['defaults.ts'] }, [], {})
    expect(affected(['defaults.ts'], walked)).toEqual({
      kind: 'restart',
      reason: {
        code: 'reached',
        message: 'the entry is reached without a provider on the path: defaults.ts → config.ts → harness.ts'
      }
    })
  })

  test('a module that leads nowhere is ignored with the reason', () => {
    expect(affected(['orphan.ts'], graph({}, [], {}))).toEqual({
      kind: 'ignored',
      reason: { code: 'aside', message: 'no provider uses it' }
    })
  })
})
