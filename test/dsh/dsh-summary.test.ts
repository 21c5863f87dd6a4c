import { expect, test } from 'vitest'
import { Parked } from '../../plugin/dsh/parked.ts'
import { summary } from '../../plugin/dsh/summary.ts'
import type { Agent, Message } from '../../plugin/dsh/types.ts'

const message = (id: string): Message => ({ id, source: { kind: 'user' } })

/** An agent as its package makes it, as far as it is looked at; what it is given is written down. */
function agent(id: string, nextTurn: string[] = []) {
  const given: string[] = []
  const one: Agent = {
    id,
    options: {},
    status: 'idle',
    session: { events: [], header: {} },
    inbox: { nextTurn: nextTurn.map(message), nextStep: [] },
    whenIdle: async () => {},
    followup: ({ id, source }) => void given.push(`turn ${source.kind === 'plugin' ? 'notice' : id}`),
    send: ({ id }, target) => void given.push(`${target} ${id}`)
  }
  return { one, given }
}

test('agents that a reload has not disposed went on', () => {
  expect(summary([new Parked(agent('a').one)], [], [])).toBe('agents 1 parked, 1 went on')
})

test('who was disposed is back with its messages, or lost with the reason', () => {
  const [a, b] = [new Parked(agent('a', ['m1', 'm2']).one), new Parked(agent('b').one)]
  b.waits([message('m3')], 2)
  expect(summary([a, b], [a, b], [])).toBe(
    'agents 2 parked, 2 back, 3 messages kept, 1 turn cut and taken up by a notice'
  )
  b.isForgetful = true
  expect(summary([a, b], [a, b], ['a: no loop'])).toContain(
    '1 back, 3 messages held, 1 turn cut and taken up by a notice, without a transcript: b (no session persistence), lost a: no loop'
  )
})

test('what waited for the step that was cut comes first, then the notice, then what waited for a turn of its own', () => {
  const parked = new Parked(agent('a', ['later']).one)
  parked.waits([message('claimed'), { id: 'context', source: { kind: 'plugin' } }], 2)
  const next = agent('a')
  parked.giveTo(next.one)
  expect(next.given).toEqual(['next-step claimed', 'turn notice', 'turn later'])
})

test('a turn that had not begun its first step begins again with its message', () => {
  const parked = new Parked(agent('a', ['later']).one)
  parked.waits([message('claimed')], 1)
  const next = agent('a')
  parked.giveTo(next.one)
  expect(next.given).toEqual(['turn claimed', 'turn later'])
})
