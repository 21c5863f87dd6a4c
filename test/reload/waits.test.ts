/** Who holds up a reload, while it waits: in the event, in the terminal, and to let it go on without them. */
import { expect, onTestFinished, test } from 'vitest'
import { createApp, gate, seq } from '../fixtures/app.ts'
import { turn } from '../promptly.ts'
import { bump, composing, service } from '../fixtures/field-fixture.ts'

const parks = (body: string) => `ctx.on('harness-hmr/before-reload', async event => { ${body} })`
const files = {
  'harness.ts': composing('./agents.ts', './loop.ts', './other.ts'),
  'agents.ts': service('agents'),
  'loop.ts': service(
    'loop',
    parks(`
      event.waitsFor('ada', gate('ada').promise, 'tool call "wait"')
      event.waitsFor('bo', gate('bo').promise)
      event.signal.addEventListener('abort', () => seq.push('cut'))
      gate('told').resolve()
      await Promise.all([gate('ada').promise, gate('bo').promise])`)
  ),
  'other.ts': service('other', parks(`await gate('other').promise`))
}
const release = () => ['ada', 'bo', 'other'].forEach(name => gate(name).resolve())

test('a close that is slow names the drivers that have not parked, their step, and the listeners that say nothing', async () => {
  const app = await createApp(files, { warnAfter: 20, grace: 60_000 })
  await app.next('ready')
  const reloading = app.edit('agents.ts', bump)
  const slow = await app.next('slow')
  expect(slow).toMatchObject({
    step: 'close',
    providers: ['agents 1'],
    parkingTotal: 3,
    parking: [
      { provider: 'loop 1', driver: 'ada', step: 'tool call "wait"' },
      { provider: 'loop 1', driver: 'bo' },
      { provider: 'other 1' }
    ]
  })
  expect(slow.left).toBeGreaterThan(50_000)
  const line = app.lines.find(line => line.includes('closing'))
  expect(line).toMatch(
    /closing agents 1: 3 not parked {2}\([\d.]+ s left\)\n {2}ada {2}loop 1 {2}tool call "wait"\n {2}bo {2}loop 1\n {2}a listener {2}other 1$/
  )
  gate('ada').resolve()
  gate('other').resolve()
  // Those that have parked are not waited for.
  await turn()
  expect(app.harness.history.waits!().parking).toEqual([{ provider: 'loop 1', driver: 'bo' }])
  release()
  expect(await reloading).toMatchObject({ outcome: 'reloaded', failures: [] })
  expect(app.harness.history.waits).toBeUndefined()
})

test('a close goes on without those that have not parked when it is told to, and then drains', async () => {
  const drains = `ctx.effect(() => () => gate('drain').promise)`
  const app = await createApp({ ...files, 'agents.ts': service('agents', drains) }, { grace: Infinity, warnAfter: 20 })
  onTestFinished(release)
  await app.next('ready')
  const reloading = app.edit('agents.ts', bump)
  await gate('told').promise
  expect(app.harness.history.waits!()).toMatchObject({ step: 'close', left: null })
  expect(app.harness.abandon()).toBe('close')
  // What was abandoned is the parking alone.
  let slow = await app.next('slow')
  while (slow.step === 'close') slow = await app.next('slow')
  expect(seq).toContain('cut')
  expect(slow).toMatchObject({
    step: 'drain',
    parking: [],
    unloading: [{ name: 'agents 1', uses: [] }]
  })
  gate('drain').resolve()
  expect(await reloading).toMatchObject({ outcome: 'reloaded', providers: [{ abandoned: false }] })
})

test('a drain names the boundaries and the dependents that it waits for, and what those have open', async () => {
  const scope = `import { BoundaryScope } from 'harness-hmr/scope'
    const scope = new BoundaryScope<string>({ name: 'calls', label: id => id })`
  const app = await createApp(
    {
      'harness.ts': composing('./agents.ts', './tools.ts'),
      'agents.ts': service('agents'),
      'tools.ts': service(
        'tools',
        `ctx.effect(() => () => gate('tools').promise); void scope.run('call 7', () => gate('call').promise)`,
        scope
      ).replace('version = 1', `static inject = ['agents']\nversion = 1`)
    },
    { warnAfter: 20 }
  )
  onTestFinished(() => ['tools', 'call'].forEach(name => gate(name).resolve()))
  await app.next('ready')
  const reloading = app.edit('agents.ts', bump)
  expect(await app.next('slow')).toMatchObject({
    step: 'drain',
    providers: ['agents 1'],
    total: 1,
    open: [{ label: 'call 7', provider: 'tools 1' }],
    unloading: expect.arrayContaining([{ name: 'tools 1', uses: ['agents'] }]) as unknown
  })
  expect(app.lines.find(line => line.includes('draining'))).toMatch(
    /draining agents 1: 1 open boundary .*\n {2}call 7 {2}[\d.]+ s {2}tools 1 .*\n {2}tools 1 {2}unloads, since it uses agents$/
  )
  gate('tools').resolve()
  expect(await reloading).toMatchObject({ outcome: 'reloaded' })
})
