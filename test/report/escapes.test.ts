/** What is not ours reaches a terminal and a page as text alone: no control, escape or bidirectional character of it. */
import { createLogger } from 'vite'
import { expect, onTestFinished, test } from 'vitest'
import { printable, printableLines } from '../../plugin/guard/printable.ts'
import { jsonLines } from '../../plugin/report/json-lines.ts'
import { overview } from '../../plugin/page/server/overview.ts'
import { providerLines } from '../../plugin/vite/shortcuts.ts'
import { createApp, gate } from '../fixtures/app.ts'
import { bump } from '../fixtures/page-fixture.ts'

/** Clears the screen, names the window, moves the cursor, ends a line and turns what follows. */
const EVIL = String.raw`\u001b[2J\u001b]0;owned\u0007\u009b1A\r\n[harness-hmr] ready\u202e\u2066evil`

const files = {
  'harness.ts': `
    import { evil } from './evil.ts'
    export default function harness(ctx: any) {
      ctx.plugin(evil)
      ctx.plugin({ name: '${EVIL}', inject: ['${EVIL}'], apply() {} })
      ctx.harnessHmr.note('note ${EVIL}')
    }`,
  'evil.ts': `
    import { BoundaryScope } from 'harness-hmr/scope'
    export const version = 1
    export const evil = {
      name: '${EVIL}',
      apply(ctx: any) {
        const scope = new BoundaryScope<string>({ name: '${EVIL}', label: text => text })
        ctx.effect(() => () => scope.dispose())
        ctx.provide('work', (until: Promise<unknown>) => scope.run('${EVIL}', () => until))
        ctx.on('harness-hmr/after-reload', () => { throw new Error('after ${EVIL}') })
      }
    }`
}

/** Our own colours. */
const COLOUR = new RegExp(String.raw`${String.fromCodePoint(27)}\[\d+(;\d+)*m`, 'g')

/** What a terminal or a browser would act on. */
function acted(text: string): string[] {
  return text.replaceAll(COLOUR, '').match(/(?!\n)[\p{Cc}\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]/gu) ?? []
}

/** Every text in a value. */
function textsIn(value: unknown): string[] {
  if (typeof value === 'string') return [value]
  return typeof value === 'object' && value !== null ? Object.values(value).flatMap(textsIn) : []
}

test('labels, names and messages with escapes steer neither the terminal, nor the lines of JSON, nor the page', async () => {
  const lines: string[] = []
  const push = (line: string) => void lines.push(line)
  const customLogger = { ...createLogger(), info: push, warn: push, warnOnce: push, error: push }
  const app = await createApp(files, { warnAfter: 10, deadline: 200 }, { customLogger })
  const json: string[] = []
  app.harness.listen(
    jsonLines(
      line => json.push(line),
      () => undefined
    )
  )
  await app.next('ready')
  const work = app.harness.running!.fibers.root.get('work') as (until: Promise<unknown>) => unknown
  onTestFinished(() => gate('held').resolve())
  void work(gate('held').promise)
  const page = textsIn(overview(app.harness.running!))
  lines.push(...providerLines(app.harness))
  expect(await app.edit('evil.ts', bump)).toMatchObject({ outcome: 'reloaded' })
  expect(await app.edit('evil.ts', source => `${source}\nthrow new Error('broken ${EVIL}')`)).toMatchObject({
    outcome: 'kept'
  })
  app.harness.report(new Error(`ran ${JSON.parse(`"${EVIL}"`)}`))
  gate('held').resolve()
  await app.harness.audit()
  const said = lines.join('\n')
  for (const word of ['draining', 'after', 'broken', 'ran', 'note']) expect(said).toContain(word)
  expect(acted(said)).toEqual([])
  // Not even as a line that looks like ours.
  expect(said.split('\n').filter(line => /^\[harness-hmr\] ready\s*evil/.test(line))).toEqual([])
  expect(json.flatMap(line => textsIn(JSON.parse(line))).flatMap(acted)).toEqual([])
  expect(page.filter(text => text.includes('evil')).length).toBeGreaterThan(3)
  expect(page.flatMap(text => acted(text.replaceAll('\n', '\0')))).toEqual([])
})

test('what is printable stays the same object', () => {
  const report = { a: ['x', { b: 'y' }], n: 1, none: null, gone: undefined }
  expect(printable(report)).toBe(report)
  expect(printable({ a: ['x\ny'], frame: 'x\ny' })).toEqual({ a: ['x y'], frame: 'x\ny' })
})

test('a frame keeps its lines, its tabs and its columns', () => {
  expect(printableLines('a\u202eb\r\n\tc\u0007')).toBe('a b\n\tc ')
})
