/** Providers that hold what only one can have, and what becomes of it while they are replaced. */
import { existsSync } from 'node:fs'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { type App, createApp, gate, seq } from '../fixtures/app.ts'
import { bump, composing, service } from '../fixtures/field-fixture.ts'

/** Takes a lock in the plugin's body, and gives it back after a while. */
const locking = (more = '', close = '') =>
  service(
    'agents',
    `const lock = import.meta.dirname + '/lock'
     mkdirSync(lock)
     ctx.effect(() => async () => {
       ${close}
       rmdirSync(lock)
     })
     ${more}`,
    `import { mkdirSync, rmdirSync } from 'node:fs'`
  )
const files = { 'harness.ts': composing('./agents.ts', './tools.ts'), 'tools.ts': service('tools') }

async function until(app: App, version: number): Promise<void> {
  while (app.service('agents')?.['version'] !== version) await app.next('reload')
  await app.harness.idle()
}

test('a lock has never two holders over five quick saves, also when one of them fails after it took it', async () => {
  const source = locking('', `await new Promise(resolve => setTimeout(resolve, 100))`)
  const app = await createApp({ ...files, 'agents.ts': source })
  await app.next('ready')
  let version = source
  for (let i = 2; i <= 6; i++) {
    version = bump(version)
    const failing = version.replace(`mkdirSync(lock)`, `mkdirSync(lock)\n throw new Error('after the lock')`)
    // A class that throws gives nothing back by itself: what it took in the body, it took outside of every effect.
    app.write('agents.ts', i === 4 ? failing.replace('mkdirSync(lock)\n', '') : version)
    await app.next('reload')
  }
  await until(app, 6)
  expect(existsSync(join(app.root, 'lock'))).toBe(true)
  const lives = seq.filter(line => line.startsWith('agents'))
  expect(lives.filter((line, i) => !line.endsWith(i % 2 ? 'down' : 'up'))).toEqual([])
})

test('what fails on a holder that outlasts the deadline is not said to be back, and runs when the holder has ended', async () => {
  const source = locking('', `await gate('holder').promise`)
  const app = await createApp({ ...files, 'agents.ts': source }, { deadline: 100, warnAfter: 50 })
  await app.next('ready')
  const report = await app.edit('agents.ts', bump)
  expect(report).toMatchObject({ outcome: 'rolled-back', providers: [{ instances: 1, active: 0, abandoned: true }] })
  expect(app.lines.join('\n')).toContain('nothing runs of agents')
  gate('holder').resolve()
  await until(app, 2)
  expect(app.harness.service.status.dirty).toEqual([])
  expect((await app.edit('tools.ts', bump)).outcome).toBe('reloaded')
})

test('a file that a provider writes with the same text at each start is ignored', async () => {
  const app = await createApp({
    ...files,
    'agents.ts': service(
      'agents',
      `writeFileSync(import.meta.dirname + '/generated.ts', 'export const n = 1')`,
      `import { writeFileSync } from 'node:fs'\n import './generated.ts'`
    ),
    'generated.ts': 'export const n = 1'
  })
  await app.next('ready')
  expect((await app.edit('agents.ts', bump)).outcome).toBe('reloaded')
  expect(await app.next('reload')).toMatchObject({ outcome: 'ignored', reason: { code: 'same' } })
  expect(app.service('agents')['version']).toBe(2)
})
