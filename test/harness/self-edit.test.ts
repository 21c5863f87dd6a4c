import { describe, expect, test } from 'vitest'
import type { HarnessHmr } from '../../plugin/index.ts'
import { type App, createApp, gate, seq } from '../fixtures/app.ts'
import { bump, composing, service } from '../fixtures/field-fixture.ts'
import { promptly } from '../promptly.ts'

/** A registry whose scope an agent's turn runs in; a reload drains it. */
const files = {
  'harness.ts': composing('./agents.ts', './tools.ts'),
  'agents.ts': service(
    'agents',
    `ctx.effect(() => () => this.scope.dispose())`,
    `import { BoundaryScope } from 'harness-hmr/scope'`
  ).replace(
    'version = 1',
    `version = 1\nscope = new BoundaryScope<{ id: string }>({ name: 'turn', label: agent => agent.id })`
  ),
  'tools.ts': service('tools')
}
/** A turn of an agent in which it calls a tool. */
const turnOf = <T>(app: App, tool: () => Promise<T>): Promise<T> =>
  app.service('agents')['scope'].run({ id: 'ada' }, tool)
const request = (app: App, file: string) => app.service<HarnessHmr>('harnessHmr').request(file)
const version = (app: App) => app.service('agents')?.['version'] as number | undefined
/** A program that a tool runs: changes a file of the app, says so, and ends; or waits for a word before it ends. */
const program = (file: string, source: string, waits: boolean) => `
  require('node:fs').writeFileSync(${JSON.stringify(file)}, ${JSON.stringify(source)})
  process.stdout.write('written')
  ${waits ? 'process.stdin.resume()' : ''}`

describe('a tool of an agent that saves the provider that the agent runs on', () => {
  test('is answered at once, its turn records its own result, and the provider is replaced after', async () => {
    const app = await createApp(files)
    await app.next('ready')
    const result = await promptly(
      turnOf(app, async () => {
        app.write('agents.ts', bump(files['agents.ts']))
        const ticket = request(app, 'agents.ts')
        expect(ticket).toMatchObject({ when: 'deferred', providers: ['agents 1'] })
        return ticket.message
      }),
      'the turn'
    )
    expect(result).toContain('agents 1 will be replaced')
    expect((await app.next('reload')).outcome).toBe('reloaded')
    expect(version(app)).toBe(2)
  })

  test('and another one beside it is told of both', async () => {
    const app = await createApp(files)
    await app.next('ready')
    await promptly(
      turnOf(app, async () => {
        app.write('agents.ts', bump(files['agents.ts']))
        app.write('tools.ts', bump(files['tools.ts']))
        expect(request(app, 'tools.ts')).toMatchObject({ when: 'now', providers: ['tools 1'] })
        expect(request(app, 'agents.ts')).toMatchObject({ when: 'deferred', providers: ['agents 1'] })
      }),
      'the turn'
    )
    while (version(app) !== 2 || app.service('tools')?.['version'] !== 2) await app.next('reload')
    expect(seq.filter(line => line.endsWith('2 up')).toSorted()).toEqual(['agents 2 up', 'tools 2 up'])
  })

  test('and awaits the report of it is named at the deadline, gets the report, and ends', async () => {
    const app = await createApp(files, { warnAfter: 10, deadline: 100 })
    await app.next('ready')
    const reported = app.harness.running!.fibers.root as unknown as {
      once(name: string, callback: (report: { outcome: string }) => void): void
    }
    const turn = turnOf(app, async () => {
      app.write('agents.ts', bump(files['agents.ts']))
      return new Promise<string>(resolve => reported.once('harness-hmr/report', ({ outcome }) => resolve(outcome)))
    })
    expect(await promptly(turn, 'the turn')).toBe('reloaded')
    expect((await app.next('reload')).providers[0]?.boundaries.abandoned).toBe(1)
    expect(app.lines.join('\n')).toMatch(/draining agents 1: 1 open boundary {2}\(.*\)\n {2}ada /)
    expect(version(app)).toBe(2)
  })

  test('with broken code gets the failure from the reports before its next step', async () => {
    const app = await createApp(files)
    await app.next('ready')
    await promptly(
      turnOf(app, async () => {
        app.write('agents.ts', files['agents.ts'].replace('extends', 'extends extends'))
        return request(app, 'agents.ts')
      }),
      'the turn'
    )
    expect((await app.next('reload')).outcome).toBe('kept')
    const last = app.service<HarnessHmr>('harnessHmr').reports.at(-1)
    expect(last).toMatchObject({ outcome: 'kept', error: { message: expect.stringContaining('Unexpected token') } })
    expect(version(app)).toBe(1)
  })
})

describe('a child process that a tool waits for and that saves the provider', () => {
  const run = (code: string) => `
    const child = spawn(process.execPath, ['-e', ${code}], { stdio: ['pipe', 'pipe', 'inherit'] })
    gate('child').resolve(child)
    return new Promise(resolve => child.on('exit', resolve))`
  const tool = `ctx.provide('shell', (code: string) => {${run('code')}})`
  const shell = { ...files, 'tools.ts': service('tools', tool, `import { spawn } from 'node:child_process'`) }
  type Shell = (code: string) => Promise<number>

  test('ends by itself, its exit code is the result, and the provider is replaced after', async () => {
    const app = await createApp(shell)
    await app.next('ready')
    const code = program(`${app.root}/agents.ts`, bump(files['agents.ts']), false)
    expect(
      await promptly(
        turnOf(app, () => app.service<Shell>('shell')(code)),
        'the turn',
        5000
      )
    ).toBe(0)
    expect((await app.next('reload')).outcome).toBe('reloaded')
    expect(version(app)).toBe(2)
  })

  test('and does not end before the reload has is named at the deadline, and both go on', async () => {
    const app = await createApp(shell, { warnAfter: 10, deadline: 100 })
    await app.next('ready')
    const code = program(`${app.root}/agents.ts`, bump(files['agents.ts']), true)
    const turn = turnOf(app, () => app.service<Shell>('shell')(code))
    const report = await app.next('reload')
    expect(report).toMatchObject({
      outcome: 'reloaded',
      providers: [{ name: 'agents', abandoned: true, boundaries: { abandoned: 1 } }]
    })
    const child = (await gate('child').promise) as unknown as { stdin: { end(): void } }
    child.stdin.end()
    expect(await promptly(turn, 'the turn', 5000)).toBe(0)
    expect(version(app)).toBe(2)
  })
})

test('a tool call that a reload waits for returns its own result, and the one after it runs on the new provider', async () => {
  const app = await createApp(files)
  await app.next('ready')
  const turn = turnOf(app, async () => {
    gate('running').resolve()
    await gate('effect').promise
    seq.push('side effect')
    return 'true result'
  })
  await gate('running').promise
  const reloading = app.edit('agents.ts', bump)
  gate('effect').resolve()
  expect(await promptly(turn, 'the turn')).toBe('true result')
  expect(await reloading).toMatchObject({ outcome: 'reloaded', providers: [{ abandoned: false }] })
  expect(seq.slice(-3)).toEqual(['side effect', 'agents 1 down', 'agents 2 up'])
  expect(await turnOf(app, async () => app.service('agents')['scope'].current().id as string)).toBe('ada')
})
