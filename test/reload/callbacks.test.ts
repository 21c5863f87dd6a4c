/** Callbacks of the user's that throw while the live page looks on: it reads the same labels and exports as a reload. */
import { describe, expect, test } from 'vitest'
import { type Delta, DELTA, OPEN, SNAPSHOT, type Snapshot } from '../../plugin/page/server/protocol.ts'
import { type App, createApp } from '../fixtures/app.ts'
import { noBrowser, openPage } from '../fixtures/browser.ts'
import { bump, composing, service } from '../fixtures/field-fixture.ts'
import { connect, pageOf } from '../fixtures/page-fixture.ts'
import { turn } from '../promptly.ts'

const no = `throw new Error('no')`
const later = `await null; ${no}`
/** A scope with a boundary that is open until it is disposed. */
const scoped = (label: string) =>
  service(
    'agents',
    `let end
     scope.run({ id: 'ada' }, () => new Promise(resolve => (end = resolve)))
     ctx.effect(() => () => { end(); return scope.dispose() })`,
    `import { BoundaryScope } from 'harness-hmr/scope'
     let asked = 0
     const scope = new BoundaryScope({ name: 'agents', label: () => { ${label} } })`
  )

const CASES: Record<string, { source: string; says?: RegExp }> = {
  'the label of a scope': { source: scoped(no) },
  'the label of a scope, from the second time on': { source: scoped(`if (asked++ > 0) ${no}; return 'ada'`) },
  'the label of a scope, by a rejection': { source: scoped(`return (async () => { ${later} })()`) },
  'the getter of an export': {
    source: `${service('agents')}\nexport const db = new Proxy(() => {}, { get() { ${no} } })`
  },
  'a disposer': { source: service('agents', `ctx.effect(() => () => { ${no} })`), says: /no/ },
  'a disposer, later': { source: service('agents', `ctx.effect(() => async () => { ${later} })`), says: /no/ },
  'hot.dispose': { source: service('agents', '', `import.meta.hot.dispose(() => { ${no} })`), says: /no/ },
  'hot.dispose, later': {
    source: service('agents', '', `import.meta.hot.dispose(async () => { ${later} })`),
    says: /no/
  }
}

const files = {
  'harness.ts': composing('./agents.ts', './tools.ts'),
  'tools.ts': service('tools')
}

/** A save that fails, with what the old version throws while it goes; then one that is good, and one of another provider. */
async function expectSound(app: App, source: string, says: RegExp | undefined): Promise<void> {
  let reports = 0
  app.harness.listen({ reload: ({ outcome }) => void (outcome !== 'ignored' && reports++) })
  const report = await app.edit('agents.ts', bump(source).replace('super(', `throw new Error('too new'); super(`))
  expect(report).toMatchObject({ outcome: 'rolled-back', error: { message: 'too new' } })
  if (says) expect(report.failures.join('\n')).toMatch(says)
  expect(app.service('agents')['version']).toBe(1)
  expect((await app.edit('agents.ts', bump(bump(source)))).outcome).toBe('reloaded')
  expect(app.service('agents')['version']).toBe(3)
  expect((await app.edit('tools.ts', bump)).outcome).toBe('reloaded')
  await app.harness.idle()
  expect(reports).toBe(3)
  expect(app.harness.service.status).toMatchObject({ state: 'running', dirty: [] })
}

describe('with the page open, what throws brings the old version back, and the next save works:', () => {
  test.each(Object.keys(CASES))('%s', async name => {
    const { source, says } = CASES[name]!
    const app = await createApp({ ...files, 'agents.ts': source }, { warnAfter: 20, deadline: 2000 })
    await app.next('ready')
    const { opened, send, next, messages } = await connect(app)
    await opened
    send(OPEN)
    const { fibers, errors } = await next<Snapshot>(SNAPSHOT)
    expect(fibers[0]?.children.map(({ name }) => name)).toEqual(['agents', 'tools'])
    expect(errors).toEqual([])
    await expectSound(app, source, says)
    const deltas = () => messages.flatMap(({ event, data }) => (event === DELTA ? [data as Delta] : []))
    const shown = () => deltas().flatMap(({ parts }) => parts?.fibers?.[0]?.children ?? [])
    while (shown().findLast(({ name }) => name === 'tools')?.generation !== 2) await turn()
    expect(shown().findLast(({ name }) => name === 'agents')?.generation).toBe(4)
    expect(deltas().flatMap(({ lists }) => lists?.errors ?? [])).toEqual([])
  })

  test.skipIf(noBrowser)('all of them at once, in a browser', async () => {
    const disposes = `ctx.effect(() => () => { ${no} }); ctx.effect(() => async () => { ${later} }); scope.run`
    const source = `
      ${scoped(`if (asked++ % 2) ${no}; return (async () => { ${later} })()`).replace('scope.run', disposes)}
      export const db = new Proxy(() => {}, { get() { ${no} } })
      import.meta.hot.dispose(() => { ${no} })
      import.meta.hot.dispose(async () => { ${later} })`
    const app = await createApp({ ...files, 'agents.ts': source }, { warnAfter: 20, deadline: 2000 })
    await app.next('ready')
    const page = await openPage(pageOf(app))
    await page.locator('.connection.live').waitFor()
    await expectSound(app, source, /no/)
    const agents = page.locator('.node').filter({ has: page.locator('.node-name', { hasText: /^agents$/ }) })
    await agents.locator('.generation').getByText('4', { exact: true }).waitFor()
    expect(await page.locator('.node-name').allTextContents()).toEqual(['harness', 'agents', 'tools'])
  })
})
