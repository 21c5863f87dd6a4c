/** What the terminal says of a harness, in the words that it says it in. */
import { expect, test } from 'vitest'
import { createApp } from '../fixtures/app.ts'
import { bump, files } from '../fixtures/page-fixture.ts'

const kept = {
  ...files,
  'tools.ts': files['tools.ts'].replace("super(ctx, 'tools')", "super(ctx, 'tools'); (globalThis as any).__kept = this")
}

test('a harness that is up says who waits for what nobody provides', async () => {
  const app = await createApp({
    ...files,
    'harness.ts': files['harness.ts'].replace(
      'ctx.plugin(Agents)',
      `ctx.plugin({ name: 'loop', inject: ['llm'], apply() {} })`
    )
  })
  expect(await app.next('ready')).toMatchObject({
    providers: 2,
    waiting: [
      { provider: 'loop', services: ['llm'] },
      { provider: 'Tools', services: ['agents'] }
    ]
  })
  expect(app.lines.find(line => line.includes('ready'))).toMatch(
    /ready harness\.ts {2}2 providers, 2 wait for "llm", "agents" {2}in \d+ ms/
  )
})

test('a generation that is retained by what has no name says how to find it', async () => {
  const app = await createApp(kept)
  await app.next('ready')
  await app.edit('tools.ts', source => bump(source).replace('(globalThis as any).__kept = this', ''))
  while ((await app.next('audit')).outcome !== 'retained');
  expect(app.lines.find(line => line.includes('retained tools 1'))).toMatch(
    /what keeps it: w \+ Enter, or `npx harness-hmr why`$/
  )
  Reflect.deleteProperty(globalThis, '__kept')
})

test.each([
  [
    'the composing plugin',
    `export default async function harness(ctx: any) { await null; throw new Error('no boot') }`
  ],
  [
    'a provider that it awaits',
    `export default async (ctx: any) => void (await ctx.plugin(async function P() { await null; throw new Error('no boot') }))`
  ]
])('a boot that fails in async code of %s is told once', async (_, source) => {
  const app = await createApp({ 'harness.ts': source })
  await app.next('failed')
  expect(app.lines.filter(line => line.includes('[harness-hmr]') && line.includes('no boot'))).toEqual([
    expect.stringMatching(/not running harness\.ts {2}harness\.ts:1:\d+ no boot/)
  ])
})
