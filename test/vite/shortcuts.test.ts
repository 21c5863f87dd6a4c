import { describe, expect, onTestFinished, test } from 'vitest'
import { providerLines } from '../../plugin/vite/shortcuts.ts'
import { type App, createApp, gate } from '../fixtures/app.ts'
import { bump, files } from '../fixtures/page-fixture.ts'
import { promptly } from '../promptly.ts'

/** An app whose server has bound its keys, as Vite's command does in a terminal. */
async function inTerminal(
  options = {}
): Promise<{ app: App; press: (key: string) => void; line: (text: string) => Promise<string> }> {
  const { isTTY } = process.stdin
  const { CI } = process.env
  Object.assign(process.stdin, { isTTY: true })
  delete process.env['CI']
  onTestFinished(() => {
    Object.assign(process.stdin, { isTTY })
    if (CI !== undefined) process.env['CI'] = CI
  })
  const app = await createApp(files, options)
  await app.next('ready')
  app.server.bindCLIShortcuts({ print: true })
  const press = (key: string) => void process.stdin.emit('data', Buffer.from(`${key}\n`))
  const line = async (text: string) => {
    const find = () => app.lines.find(line => line.includes(text))
    const appeared = (async () => {
      while (!find()) await new Promise(setImmediate)
      return find()!
    })()
    return promptly(appeared, `line with "${text}"`)
  }
  return { app, press, line }
}

describe('the keys in the terminal', () => {
  test('stand in the help beside those of Vite', async () => {
    const { app, press, line } = await inTerminal()
    press('h')
    await line('q + enter to quit')
    const keys = app.lines.flatMap(line => /press (\w) \+ enter to (.+)/.exec(line)?.slice(1, 2) ?? [])
    expect(keys.slice(1)).toEqual(['l', 'a', 'w', 'x', 'r', 'u', 'o', 'c', 'q'])
  })

  test('list the providers', async () => {
    const { app, press, line } = await inTerminal()
    await app.edit('agents.ts', bump)
    await app.next('audit')
    press('l')
    expect(await line('providers\n')).toContain('\n  harness 1\n    agents 2\n    tools 1')
    await line('0 open boundaries, 1 live storage')
  })

  test('audit, and say that nothing is left', async () => {
    const { app, press, line } = await inTerminal()
    await app.edit('agents.ts', bump)
    press('a')
    await line('nothing of a retired generation is left')
    expect(app.lines.join('\n')).toContain('collected agents 1')
  })

  test('abandon the drain that runs, and nothing when no reload waits', async () => {
    const { app, press, line } = await inTerminal({ deadline: Infinity, warnAfter: 50 })
    press('x')
    await line('no reload waits')
    void app.service('agents')['work']('ada', gate('held').promise)
    onTestFinished(() => gate('held').resolve())
    const reloaded = app.edit('agents.ts', bump)
    await app.next('slow')
    press('x')
    expect(await reloaded).toMatchObject({ outcome: 'reloaded', providers: [{ abandoned: true }] })
    await line('the reload goes on without the drain')
  })

  test('go on after the server has restarted, with the harness that runs then', async () => {
    const { app, press, line } = await inTerminal()
    await app.edit('agents.ts', bump)
    await app.server.restart()
    await app.follow()
    press('l')
    expect(await line('providers\n')).toContain('agents 3')
  })

  test('are not bound where nobody types', async () => {
    const app = await createApp(files)
    await app.next('ready')
    const listeners = process.stdin.listenerCount('data')
    app.server.bindCLIShortcuts({ print: true })
    expect(process.stdin.listenerCount('data')).toBe(listeners)
  })
})

test('a harness that does not run lists nothing but its state', () => {
  expect(providerLines({ running: undefined, state: 'failed' })).toEqual(['the harness is failed'])
})
