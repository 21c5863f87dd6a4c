import { describe, expect, test } from 'vitest'
import { deferred, promptly } from '../promptly.ts'
import { boot, expectSound, type Harness } from './fixture.ts'

/** A tool that may not be made twice and counts how often it was. */
async function counter(harness: Harness) {
  const tool = { name: 'count', calls: 0, execute: () => `call ${++tool.calls}` }
  await harness.offer(tool)
  return tool
}

describe('a call that somebody objects to', () => {
  test('is not made, its error says who objects and why, and the turn goes on', async () => {
    const harness = await boot()
    const tool = await counter(harness)
    harness.root.tools.approve({ name: 'night', object: ({ name }) => (name === 'count' ? 'it is late' : undefined) })
    const answer = await harness.ask('ada', 'use count then add 1 2')
    expect(answer).toContain('error: tool "count" is not approved by "night": it is late; 1 + 2 = 3')
    expect(tool.calls).toBe(0)
    expect(harness.record('ada').filter(({ type }) => type === 'call')).toHaveLength(1)
    expectSound(harness.record('ada'))
  })

  test('is not made when whoever is asked fails', async () => {
    const harness = await boot()
    const tool = await counter(harness)
    harness.root.tools.approve({ name: 'broken', object: () => Promise.reject(new Error('out of order')) })
    expect(await harness.ask('ada', 'use count')).toContain('error: out of order')
    expect(tool.calls).toBe(0)
  })

  test('is made once those who objected are gone', async () => {
    const harness = await boot()
    await counter(harness)
    const approver = await harness.root.plugin({
      inject: ['tools'],
      apply: ctx => void ctx.tools.approve({ name: 'night', object: () => 'it is late' })
    })
    expect(await harness.ask('ada', 'use count')).toContain('it is late')
    await approver.dispose()
    expect(await harness.ask('ada', 'use count')).toContain('call 1')
  })
})

describe('a call that waits for approval', () => {
  test('sees the arguments, the directory and the call that it is about', async () => {
    const harness = await boot()
    const seen: unknown[] = []
    harness.root.tools.approve({
      name: 'look',
      object: ({ subject, name, args, cwd, callId }) => void seen.push([subject!.id, name, args, cwd, callId])
    })
    await harness.ask('ada', 'use add 1 2')
    expect(seen).toEqual([['ada', 'add', { a: 1, b: 2 }, process.cwd(), 'p1-0-0']])
  })

  for (const name of ['agents', 'tools', 'agent-loop'] as const) {
    test(`does not hold up a reload of ${name}, is asked for again and then made once`, async () => {
      const harness = await boot()
      const tool = await counter(harness)
      const asked = [deferred(), deferred()]
      const verdict = deferred<undefined>()
      let asks = 0
      await harness.root.plugin({
        inject: ['tools'],
        apply: ctx =>
          void ctx.tools.approve({
            name: 'person',
            object: ({ signal }) => {
              asked[asks++]!.resolve()
              return new Promise((resolve, reject) => {
                signal.addEventListener('abort', () => reject(signal.reason))
                void verdict.promise.then(resolve)
              })
            }
          })
      })
      const { promptId } = (await harness.root.agents.create({ id: 'ada' })).prompt('use count')
      await promptly(asked[0]!.promise, 'the question')
      await harness.reload(name, { grace: 60_000 })
      await promptly(asked[1]!.promise, 'the question again')
      expect(tool.calls).toBe(0)
      verdict.resolve(undefined)
      expect(await promptly(harness.root.agents.get('ada')!.answer(promptId), 'answer')).toContain('call 1')
      expect([tool.calls, asks]).toEqual([1, 2])
      expectSound(harness.record('ada'))
    })
  }
})
