import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { describe, expect, onTestFinished, test } from 'vitest'
import { createFolder } from './app.ts'
import { type Copy, DevServer } from './dev-server.ts'
import { promptly } from './promptly.ts'

const plugin = fileURLToPath(new URL('../plugin/index.ts', import.meta.url))
const config = (n: number) => `
  import { harnessHmr } from '${plugin}'
  export default { clearScreen: false, plugins: [harnessHmr({ entry: 'harness.ts', config: { n: ${n} } })] }`
/** Listens on an address that only one instance can have, and tells the test when it comes and goes. */
const agents = (version: number, teardown = '') => `
  import { createServer } from 'node:net'
  const send = (kind: string, n: number) => process.send?.({ kind, n, version: ${version} })
  export default function agents(ctx: any, { n }: { n: number }) {
    send('up', n)
    const server = createServer().on('error', error => process.send?.({ kind: 'error', message: String(error) }))
    ${process.platform === 'win32' ? '' : `server.listen(new URL('agents.sock', import.meta.url).pathname)`}
    ctx.effect(function* () {
      yield () => send('down', n)
      yield () => new Promise(resolve => server.close(resolve))
      ${teardown}
    })
  }`
const files = {
  'package.json': '{ "type": "module" }',
  'vite.config.ts': config(0),
  'harness.ts': `import agents from './agents.ts'\nexport default (ctx: any, config: any) => void ctx.plugin(agents, config)`,
  'agents.ts': agents(1)
}

/** A dev server in a process of its own, on a folder with `files`. */
class Project {
  readonly root: string
  readonly server: DevServer

  constructor(changed: Record<string, string> = {}) {
    this.root = createFolder({ ...files, ...changed })
    this.server = new DevServer({ root: this.root } as Copy)
  }

  write(file: string, source: string): void {
    writeFileSync(join(this.root, file), source)
  }

  /** What the provider told: `up 0 v1`. */
  get lives(): string[] {
    return this.server.messages
      .filter(({ kind }) => kind === 'up' || kind === 'down')
      .map(({ kind, n, version }) => `${String(kind)} ${String(n)} v${String(version)}`)
  }

  until(state: string, ms = 6000): Promise<unknown> {
    return this.server.until(state, () => this.lives.at(-1) === state, ms)
  }

  /** Instances that overlapped another, and addresses that were taken. */
  get overlaps(): unknown[] {
    const errors = this.server.messages.filter(({ kind }) => kind === 'error')
    return [...errors, ...this.lives.filter((life, i) => !life.startsWith(i % 2 ? 'down' : 'up'))]
  }
}

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
    await project.until('up 2 v1', 2000)
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

describe.skipIf(process.platform === 'win32')('Ctrl-C', () => {
  test('while nothing happens tears the harness down once and ends the process', async () => {
    const project = new Project()
    await project.until('up 0 v1')
    project.server.signal('SIGINT')
    expect(await promptly(project.server.exited, 'exit', 5000)).toEqual([130, null])
    expect(project.lives).toEqual(['up 0 v1', 'down 0 v1'])
  })

  test('while a reload drains tears every instance down once and ends the process', async () => {
    const slow = `yield () => new Promise(resolve => { process.send?.({ kind: 'draining' }); setTimeout(resolve, 200) })`
    const project = new Project({ 'agents.ts': agents(1, slow) })
    await project.until('up 0 v1')
    project.write('agents.ts', agents(2))
    await project.server.until('drain', () => project.server.messages.some(({ kind }) => kind === 'draining'))
    project.server.signal('SIGINT')
    expect(await promptly(project.server.exited, 'exit', 5000)).toEqual([130, null])
    expect(project.overlaps).toEqual([])
    expect(project.lives.filter(life => life === 'down 0 v1')).toHaveLength(1)
    expect(project.lives.at(-1)).toMatch(/^down/)
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
