import { describe, expect, test } from 'vitest'
import type { SoakReport } from '../../plugin/soak/start.ts'
import { createFolder } from '../fixtures/app.ts'
import { builtPackage, run } from '../fixtures/built.ts'

const { cli } = builtPackage()

const agents = (statement = '') => `
import { Service } from 'cordis'
import { AsyncLocalStorage } from 'node:async_hooks'
import { history } from '../history.ts'
export default class Agents extends Service {
  storage = new AsyncLocalStorage<object>()
  constructor(ctx: any) {
    super(ctx, 'agents')
    this.storage.run({}, () => {})
    ctx.effect(() => () => this.storage.disable())
    ${statement}
  }
}`

const files = (statement?: string) => ({
  'src/harness.ts': `
    import Agents from './providers/agents.ts'
    export default function harness(ctx: any) { ctx.plugin(Agents) }`,
  'src/providers/agents.ts': agents(statement),
  'src/history.ts': 'export const history: unknown[] = []'
})

const soak = (root: string, ...more: string[]) =>
  run([cli, 'soak', '--entry', 'src/harness.ts', '--reload', 'src/providers/agents.ts', '--pause', '0', ...more], root)

async function report(root: string, times: number, ...more: string[]): Promise<{ code: number | null } & SoakReport> {
  const { code, stdout, stderr } = await soak(root, '--times', String(times), '--json', ...more).ended
  expect(stderr).toBe('')
  return { code, ...(JSON.parse(stdout) as SoakReport) }
}

describe('a soak', () => {
  test('passes where nothing is kept and nothing grows', async () => {
    const root = createFolder(files())
    // A small harness is all noise: what a boundary costs is not what this is about.
    const { code, ...soaked } = await report(root, 40, '--max-boundary-ratio', '3', '--max-heap-slope', '9000')
    expect(soaked).toMatchObject({
      type: 'soak',
      node: process.versions.node,
      root,
      file: `${root}/src/providers/agents.ts`,
      outcomes: { reloaded: 40 },
      errors: [],
      failures: [],
      instances: { created: 40, collected: 40 },
      storages: { created: 40, collected: 40 },
      alive: { start: 1, end: 1, stale: 0 },
      retained: [],
      grown: {},
      failed: []
    })
    expect(soaked.heap.perReload!.value).toBeLessThan(4000)
    expect(soaked.cost.end.boundary).toBeGreaterThan(soaked.cost.end.await)
    expect(code).toBe(0)
  }, 60_000)

  test("takes paths from the working directory where the config has another root, and from Vite's root", async () => {
    const root = createFolder({ ...files(), 'vite.config.ts': `export default { root: 'src' }` })
    const { outcomes } = await report(root, 1, '--max-boundary-ratio', '9')
    expect(outcomes).toEqual({ reloaded: 1 })
    const { stdout } = await run(
      [cli, 'soak', '--entry', 'harness.ts', '--reload', 'providers/agents.ts', '--times', '1', '--json'],
      root
    ).ended
    expect(JSON.parse(stdout)).toMatchObject({ outcomes: { reloaded: 1 } })
  }, 60_000)

  // With V8's cache of compiled code it would grow by about 200 kB a reload.
  test('of a module with 300 functions is flat', async () => {
    const many = Array.from({ length: 300 }, (_, i) => `export function f${i}(x: number) { return x * ${i} + ${i} }`)
    const { 'src/providers/agents.ts': source, ...others } = files()
    const root = createFolder({ ...others, 'src/providers/agents.ts': `${source}\n${many.join('\n')}` })
    const { heap, outcomes } = await report(root, 100, '--max-boundary-ratio', '3')
    expect(outcomes).toEqual({ reloaded: 100 })
    expect(heap.perReload!.value - heap.perReload!.error).toBeLessThan(4000)
  }, 60_000)

  test('fails with the array that keeps each generation, and says where it is', async () => {
    const root = createFolder(files('history.push(this)'))
    const { code, ...soaked } = await report(root, 3, '--max-boundary-ratio', '3')
    expect(soaked.retained).toHaveLength(3)
    expect(soaked.instances).toEqual({ created: 3, collected: 0 })
    expect(soaked.failed).toEqual(['3 retired generations not released'])
    expect(JSON.stringify(soaked.whys)).toMatch(/module-level array \\"history\\".*src\/history\.ts/)
    expect(code).toBe(1)
  }, 60_000)

  test('fails where the heap grows, although no generation is kept', async () => {
    const root = createFolder(files(`history.push('x'.repeat(20_000).split(''))`))
    const { code, ...soaked } = await report(root, 40, '--max-boundary-ratio', '3')
    expect(soaked.retained).toEqual([])
    expect(soaked.failed).toEqual([expect.stringMatching(/^the heap grows by \d+\.\d kB a reload, limit 1024 B$/)])
    expect(soaked.heap.perReload!.value).toBeGreaterThan(100_000)
    expect(code).toBe(1)
  }, 60_000)

  test('fails with the listeners and timers that each generation leaves', async () => {
    const root = createFolder(files(`process.on('SIGUSR2', () => {}); setInterval(() => {}, 1e6)`))
    const { code, stdout } = await soak(root, '--times', '3', '--max-boundary-ratio', '3').ended
    expect(stdout).toMatch(/grown .*listener "SIGUSR2" on process \+3.*Timeout \+3/)
    expect(stdout).toMatch(/\nfailed: .*listener "SIGUSR2" on process: 3 more than at the start/)
    expect(code).toBe(1)
  }, 60_000)

  test('changes nothing on disk and prints no line of the harness, unless asked', async () => {
    const root = createFolder(files(`console.log('a line of the harness')`))
    const quiet = await soak(root, '--times', '3', '--max-boundary-ratio', '3').ended
    expect(quiet.stdout).toMatch(/^soak of src\/providers\/agents\.ts, 3 reloads in [\d.]+ s, Node /)
    expect(quiet.stdout).toMatch(/\npassed\n$/)
    expect(quiet).toMatchObject({ code: 0, stderr: '' })
    const verbose = await soak(root, '--times', '3', '--max-boundary-ratio', '3', '--verbose').ended
    expect(verbose.stderr.match(/a line of the harness/g)).toHaveLength(4)
  }, 60_000)
})

describe('a soak that cannot be made', () => {
  const error = async (statement: string, ...more: string[]) => {
    const { code, stdout, stderr } = await soak(createFolder(files(statement)), '--times', '3', ...more).ended
    expect({ code, stdout }).toEqual({ code: 1, stdout: '' })
    return stderr
  }

  test('says why the harness does not start', async () => {
    expect(await error(`throw new Error('no agents')`)).toMatch(
      /^error the harness did not start: provider "Agents" failed\nsrc\/providers\/agents\.ts:11:11 no agents/
    )
  })

  test('says that a reload does not succeed', async () => {
    const second = `if ((globalThis as any).started) throw new Error('once only');\n(globalThis as any).started = true`
    expect(await error(second)).toMatch(/^error the first reload was rolled-back: .*agents\.ts:11:\d+ once only/)
  })

  test('says that no running module is made of the file', async () => {
    expect(await error('', '--reload=src/other.ts')).toContain('option "--reload" is given 2 times')
    const other = run([cli, 'soak', '--entry', 'src/harness.ts', '--reload', 'src/other.ts'], createFolder(files()))
    expect((await other.ended).stderr).toMatch(/^error "src\/other\.ts": no running module is made of/)
  })

  test('shows what the process has printed when it ends early', async () => {
    const second = `if ((globalThis as any).started) { console.log('good bye'); process.exit(7) }\n(globalThis as any).started = true`
    expect(await error(second)).toBe('error the process of the soak ended early (exit code 7)\ngood bye\n')
  })

  test('ends with its process on Ctrl-C, and exits with 130', async () => {
    const root = createFolder(files(`console.log('pid ' + process.pid + '.')`))
    const soaking = soak(root, '--times', '1000', '--verbose')
    await soaking.shows('pid ')
    soaking.child.kill('SIGINT')
    const { code, stdout, stderr } = await soaking.ended
    expect({ code, stdout }).toEqual({ code: 130, stdout: '' })
    const pid = Number(/pid (\d+)\./.exec(stderr)![1])
    expect(() => process.kill(pid, 0)).toThrow('ESRCH')
  })
})
