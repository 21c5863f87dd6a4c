/** What the tree shows of fibers that go and come, by tables. */
import { expect, test } from 'vitest'
import { keeping } from '../../plugin/page/server/tree.ts'
import type { FiberNode } from '../../plugin/page/server/protocol.ts'

const node = (key: string, children: FiberNode[] = [], states: FiberNode['states'] = { active: 1 }): FiberNode => ({
  key,
  name: key,
  states,
  provides: [],
  waitsFor: [],
  children
})
const shape = (nodes: FiberNode[]): unknown[] =>
  nodes.map(({ key, states, children }) => [key, Object.keys(states).join(), ...shape(children)])

const before = [node('a', [node('b', [], { active: 3 }), node('c')]), node('d')]

test.each([
  [
    'stays as it is',
    before,
    [
      ['a', 'active', ['b', 'active'], ['c', 'active']],
      ['d', 'active']
    ]
  ],
  [
    'unloads in its place',
    [node('a', [node('c')]), node('d')],
    [
      ['a', 'active', ['b', 'unloading'], ['c', 'active']],
      ['d', 'active']
    ]
  ],
  [
    'unloads with what is below it',
    [node('d')],
    [
      ['a', 'unloading', ['b', 'unloading'], ['c', 'unloading']],
      ['d', 'active']
    ]
  ],
  [
    'is joined by what is new',
    [...before, node('e')],
    [
      ['a', 'active', ['b', 'active'], ['c', 'active']],
      ['d', 'active'],
      ['e', 'active']
    ]
  ]
])('what was there %s', (_, now, expected) => {
  expect(shape(keeping(before, now))).toEqual(expected)
})

test('as many are shown to unload as there were', () => {
  expect(keeping(before, [])[0]!.children[0]!.states).toEqual({ unloading: 3 })
})
