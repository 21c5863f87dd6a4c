import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { describe, expect, onTestFinished, test } from 'vitest'
import { createFolder } from '../fixtures/app.ts'
import { agents, config, files, Project } from '../fixtures/field-project.ts'
import { promptly } from '../promptly.ts'

const later = (ms: number) => new Promise(resolve => setTimeout(resolve, ms))

describe('a saved vite.config.ts', () => {
  test('five times is five times a new harness with the newest config, one at a time', async () => {
    const project = new Project()
    await project.until('up 0 v1')
    for (let n = 1; n <= 5; n++) {
      project.write('vite.config.ts', config(n))
      await project.until(`up ${n} v1`)
    }
    expect(project.overlaps).toEqual([])
  })

  // Vite restarts once and reads the first: chokidar drops the second change, and nobody looks again.
  test('twice within 20 ms ends with the second content', async () => {
    const project = new Project()
    await project.until('up 0 v1')
    project.write('vite.config.ts', config(1))
    await later(20)
    project.write('vite.config.ts', config(2))
    await project.until('up 2 v1')
    expect(project.overlaps).toEqual([])
  })

  // An editor that truncates first: Vite reads the empty file, and chokidar drops what comes within 50 ms.
  test.each([10, 25, 40])('that is empty for %i ms ends with its content', async ms => {
    const project = new Project()
    await project.until('up 0 v1')
    project.write('vite.config.ts', '')
    await later(ms)
    project.write('vite.config.ts', config(1))
    await project.until('up 1 v1')
    expect(project.overlaps).toEqual([])
  })

  test('that is broken leaves the harness serving, and recovers when it is mended', async () => {
    const project = new Project()
    await project.until('up 0 v1')
    project.write('vite.config.ts', config(1).replace('export default', 'export default export'))
    await project.server.line(/server restart failed/)
    await later(100) // A person takes longer to mend it than a watcher is blind for.
    expect(project.lives).toEqual(['up 0 v1'])
    project.write('agents.ts', agents(2))
    await project.until('up 0 v2')
    project.write('vite.config.ts', config(3))
    await project.until('up 3 v2')
    expect(project.overlaps).toEqual([])
  })

  test('within 5 ms of a provider ends with both', async () => {
    const project = new Project()
    await project.until('up 0 v1')
    project.write('agents.ts', agents(2))
    await later(3)
    project.write('vite.config.ts', config(1))
    await project.until('up 1 v2')
    project.write('vite.config.ts', config(2))
    await later(3)
    project.write('agents.ts', agents(3))
    await project.until('up 2 v3')
    expect(project.overlaps).toEqual([])
  })
})

// Nobody listens to `uncaughtException`: the process ends.
test('a timer that the old instance left, and that touches its dead context, is survived and names the provider', async () => {
  const timer = `process.once('message', () => void setTimeout(() => ctx.effect(() => () => {}), 1))`
  const project = new Project({ 'agents.ts': agents(1).replace(`send('up', n)`, `send('up', n)\n${timer}`) })
  await project.until('up 0 v1')
  project.write('agents.ts', agents(2))
  await project.until('up 0 v2')
  const from = project.server.lines.length
  project.server.send({ fire: true })
  await project.server.until(
    'the provider that is named',
    () => project.server.lines.slice(from).some(line => line.includes('agents')),
    2000
  )
  project.write('agents.ts', agents(3))
  await project.until('up 0 v3', 2000)
  expect(project.overlaps).toEqual([])
})

test('vitest run with the plugin in its config runs the tests, starts no harness and ends by itself', async () => {
  const root = createFolder({
    ...files,
    'a.test.ts': `import { expect, test } from 'vitest'\ntest('one and one', () => expect(1 + 1).toBe(2))`
  })
  const env = {
    ...process.env,
    VITEST: undefined,
    VITEST_WORKER_ID: undefined,
    VITEST_POOL_ID: undefined,
    NO_COLOR: '1'
  }
  const child = spawn(process.execPath, ['node_modules/vitest/vitest.mjs', 'run', '--root', root], {
    cwd: root,
    env,
    stdio: ['ignore', 'pipe', 'pipe', 'ipc']
  })
  onTestFinished(() => void child.kill('SIGKILL'))
  const told: unknown[] = []
  child.on('message', message => told.push(message))
  let output = ''
  for (const stream of [child.stdout!, child.stderr!]) stream.on('data', chunk => (output += String(chunk)))
  const [code] = await promptly(once(child, 'exit'), 'the end of vitest', 10_000)
  expect(`${code} ${output}`).toMatch(/^0 [^]*1 passed/)
  expect(output).not.toContain('close timed out')
  expect(told).toEqual([])
})
