/** When a harness comes and goes with its dev server. */
import { createServer, resolveConfig, type InlineConfig, type Plugin } from 'vite'
import { describe, expect, onTestFinished, test } from 'vitest'
import { ENVIRONMENT, harnessHmr } from '../../plugin/index.ts'
import type { HarnessEnvironment } from '../../plugin/vite/lifecycle.ts'
import { createApp, createFolder, seq } from '../fixtures/app.ts'
import { agents, Project } from '../fixtures/field-project.ts'
import { harnessOf } from '../../plugin/vite/api.ts'
import { promptly } from '../promptly.ts'

/** Tells when it comes and, a while after it was asked to, that it is gone. */
const harness = (name: string) => `export default function harness(ctx) {
  seq.push('${name} up')
  ctx.effect(() => async () => {
    await new Promise(resolve => setImmediate(resolve))
    seq.push('${name} down')
  })
}`
const middleware: InlineConfig = { server: { middlewareMode: true, ws: false } }

describe('in middleware mode', () => {
  test('a restarted server boots its harness when the old one is gone', async () => {
    const app = await createApp({ 'harness.ts': harness('a') }, {}, middleware)
    await app.next('ready')
    for (let n = 0; n < 2; n++) {
      await app.server.restart()
      await app.follow()
    }
    await app.server.close()
    expect(seq).toEqual(['a up', 'a down', 'a up', 'a down', 'a up', 'a down'])
  })

  test('a restart that fails leaves the harness serving, and the next one replaces it', async () => {
    let isBroken = false
    const broken: Plugin = {
      name: 'broken',
      configureServer() {
        if (isBroken) throw new Error('not now')
      }
    }
    const app = await createApp({ 'harness.ts': harness('a') }, {}, { ...middleware, plugins: [broken] })
    await app.next('ready')
    const plugin = app.server.config.plugins.find(({ name }) => name === 'harness-hmr')
    isBroken = true
    await app.server.restart()
    expect([seq, harnessOf(plugin)!.state]).toEqual([['a up'], 'running'])
    isBroken = false
    await app.server.restart()
    await app.follow()
    expect(seq).toEqual(['a up', 'a down', 'a up'])
  })
})

describe('two servers made with one plugin array', () => {
  const plugins = harnessHmr({ entry: 'harness.ts' })

  async function serve(name: string) {
    const root = createFolder({ 'harness.ts': harness(name) })
    const server = await createServer({ root, configFile: false, logLevel: 'silent', plugins, ...middleware })
    onTestFinished(() => server.close())
    const { lifecycle } = server.environments[ENVIRONMENT] as HarnessEnvironment
    await promptly(new Promise<void>(ready => lifecycle!.harness.listen({ ready: () => ready() })), 'the boot')
    return { server, harness: lifecycle!.harness }
  }

  test('end one at a time, and each is gone when its server is closed', async () => {
    seq.length = 0
    const [a, b] = [await serve('a'), await serve('b')]
    expect(harnessOf(plugins[0])).toBe(b.harness)
    await b.server.close()
    expect([seq, a.harness.state]).toEqual([['a up', 'b up', 'b down'], 'running'])
    expect(harnessOf(plugins[0])).toBe(a.harness)
    await a.server.close()
    expect(seq).toEqual(['a up', 'b up', 'b down', 'a down'])
    expect(harnessOf(plugins[0])).toBeUndefined()
  })

  test('are restarted one at a time', async () => {
    seq.length = 0
    const [a, b] = [await serve('a'), await serve('b')]
    await a.server.restart()
    const { lifecycle } = a.server.environments[ENVIRONMENT] as HarnessEnvironment
    await lifecycle!.harness.idle()
    expect([seq, b.harness.state]).toEqual([['a up', 'b up', 'a down', 'a up'], 'running'])
  })
})

describe('a plugin that is in a config twice', () => {
  const entry = 'harness.ts'
  test.each([
    ['made once', [harnessHmr({ entry })].flatMap(plugins => [plugins, plugins])],
    ['made twice', [harnessHmr({ entry }), harnessHmr({ entry })]]
  ])('%s is refused, with the remedy', async (_, plugins) => {
    await expect(resolveConfig({ configFile: false, plugins }, 'serve')).rejects.toThrow(
      'harness-hmr: `plugins` has harnessHmr() 2 times, and each would run a harness of its own. Keep one of them'
    )
  })

  test("is nobody's business in a build", async () => {
    const plugins = [harnessHmr({ entry }), harnessHmr({ entry })]
    await expect(resolveConfig({ configFile: false, plugins }, 'build')).resolves.toBeDefined()
  })
})

describe.skipIf(process.platform === 'win32')('while the first boot hangs on a top-level await', () => {
  const hangs = `process.send?.({ kind: 'hangs' })\nsetInterval(() => {}, 1000)\nawait new Promise(() => {})`

  test.each([
    ['SIGINT', 130],
    ['SIGTERM', 143]
  ] as const)('%s ends the process with %i at once', async (signal, code) => {
    const project = new Project({ 'agents.ts': `${hangs}\n${agents(1)}` })
    await project.server.until('hang', () => project.server.messages.some(({ kind }) => kind === 'hangs'))
    const began = performance.now()
    project.server.signal(signal)
    expect(await promptly(project.server.exited, 'exit', 5000)).toEqual([code, null])
    expect(performance.now() - began).toBeLessThan(3000)
    expect(project.lives).toEqual([])
  })

  test('a restart by a saved .env boots with the newest code', async () => {
    const project = new Project({ 'agents.ts': `${hangs}\n${agents(1)}`, '.env': 'A=1' })
    await project.server.until('hang', () => project.server.messages.some(({ kind }) => kind === 'hangs'))
    project.write('.env', 'A=2')
    project.write('agents.ts', agents(2))
    await project.until('up 0 v2')
    expect(project.overlaps).toEqual([])
  })
})
