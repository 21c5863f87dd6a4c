/** What a page asks for while what it asks for is away: the browser is played, the harness is real. */
import type { Context } from 'cordis'
import type { BrowserPage, HarnessHmr } from '../../plugin/index.ts'
import { expect, test } from 'vitest'
import { Page } from '../../playground/extras/page.ts'
import { deferred, promptly } from '../promptly.ts'
import { answers, boot, type Harness } from './fixture.ts'

/** A page whose requests go straight to the harness. */
async function open({ root }: Harness, mayAct = true) {
  const listeners = new Map<string, (data: unknown, page: BrowserPage) => unknown>()
  const waiting = new Map<unknown, (answer: unknown) => void>()
  const page = {
    mayAct,
    send: (_: string, answer: { id: unknown }) => waiting.get(answer.id)?.(answer)
  } as unknown as BrowserPage
  const browsers: Pick<HarnessHmr['browsers'], 'on' | 'send'> = {
    on: (event, listener) => {
      listeners.set(event, listener)
      return () => void listeners.delete(event)
    },
    send: () => {}
  }
  await root.plugin({
    name: 'browsers',
    apply: (ctx: Context) => ctx.provide('harnessHmr', { browsers } as HarnessHmr)
  })
  await root.plugin(Page)
  let ids = 0
  return (name: string, data: object) => {
    const id = ++ids
    const answer = deferred<unknown>()
    waiting.set(id, answer.resolve)
    void listeners.get('playground:request')!({ id, name, ...data }, page)
    return promptly(answer.promise, `the answer to "${name}"`)
  }
}

test('a prompt in the tick in which the registry goes is given to the agent as soon as it is back', async () => {
  const harness = await boot()
  const { agents } = harness.root
  await agents.create({ id: 'ada' })
  const request = await open(harness)
  const answered = request('prompt', { agent: 'ada', text: 'hello' })
  await harness.reload('agents', { announced: false })
  expect(await answered).not.toHaveProperty('error')
  await harness.ask('ada', 'last')
  expect(answers(harness.record('ada'))).toEqual([expect.stringContaining('hello'), expect.stringContaining('last')])
})

test('a page that may not act reads, and prompts and edits nothing', async () => {
  const harness = await boot()
  await harness.root.agents.create({ id: 'ada' })
  const request = await open(harness, false)
  for (const name of ['prompt', 'cancel', 'edit', 'undo'])
    expect(await request(name, { agent: 'ada', text: 'use edit', edit: 'leak', path: 'x' })).toMatchObject({
      error: expect.stringContaining('only a page on this machine')
    })
  expect(await request('session', { session: 'ada' })).toMatchObject({ result: { id: 'ada' } })
  expect(harness.record('ada').map(({ type }) => type)).toEqual(['created'])
})

test('a page that floods the harness is answered, and nothing is done for most of it', async () => {
  const harness = await boot()
  const request = await open(harness)
  const answers = await Promise.all(Array.from({ length: 830 }, () => request('session', { session: 'ada' })))
  expect(answers.filter(answer => 'result' in (answer as object)).length).toBeLessThanOrEqual(60)
})

test('a prompt in the tick in which its agent ends is refused, and nobody else gets it', async () => {
  const harness = await boot()
  const ada = await harness.root.agents.create({ id: 'ada' })
  const request = await open(harness)
  const answered = request('prompt', { agent: 'ada', text: 'hello' })
  await ada.end()
  expect(await answered).toMatchObject({ error: 'there is no agent "ada" any more' })
  expect(harness.record('ada').map(({ type }) => type)).toEqual(['created', 'ended'])
})
