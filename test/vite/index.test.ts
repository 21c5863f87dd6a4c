import { cpSync, symlinkSync } from 'node:fs'
import { createRequire } from 'node:module'
import { dirname, join } from 'node:path'
import { build, createServer, type Plugin, preview, resolveConfig } from 'vite'
import type * as Vite from 'vite'
import { describe, expect, onTestFinished, test } from 'vitest'
import { ENVIRONMENT, harnessHmr, type Options } from '../../plugin/index.ts'
import { createApp, createFolder, seq } from '../fixtures/app.ts'
import { turn } from '../promptly.ts'
import { harnessOf } from '../../plugin/vite/api.ts'
import { anyPort } from '../fixtures/port.ts'

const files = {
  'harness.ts': `
    seq.push('evaluated')
    export default function harness() { seq.push('applied') }`,
  'index.html': '<!doctype html><title>app</title>'
}

describe('the plugin', () => {
  test('has an environment of its own and leaves the others as they are', async () => {
    const root = createFolder(files)
    const config = await resolveConfig(
      { root, configFile: false, plugins: [harnessHmr({ entry: 'harness.ts' })] },
      'serve'
    )
    expect(Object.keys(config.environments)).toEqual(['client', 'ssr', ENVIRONMENT])
    expect(config.environments[ENVIRONMENT]?.consumer).toBe('server')
  })

  test('refuses a dev server of another copy of Vite, and says what to do', async () => {
    const root = createFolder(files)
    const copy = join(root, 'copy/node_modules/vite')
    const original = dirname(createRequire(import.meta.url).resolve('vite/package.json'))
    cpSync(original, copy, { recursive: true })
    for (const name of ['rolldown', 'lightningcss', 'picomatch', 'postcss', 'tinyglobby'])
      symlinkSync(join(original, '..', name), join(copy, '..', name), 'junction')
    const other = (await import(/* @vite-ignore */ join(copy, 'dist/node/index.js'))) as typeof Vite
    const plugins = harnessHmr({ entry: 'harness.ts' })
    const server = { middlewareMode: true, ws: false, watch: null } as const
    await expect(other.createServer({ root, configFile: false, logLevel: 'silent', plugins, server })).rejects.toThrow(
      /^harness-hmr: two copies of Vite are loaded, .*npm dedupe/
    )
  })

  test('is inert in build and in preview', async () => {
    seq.length = 0
    const root = createFolder(files)
    const plugins = [harnessHmr({ entry: 'harness.ts' })]
    const config = await resolveConfig({ root, configFile: false, plugins }, 'build')
    expect(config.plugins.map(({ name }) => name)).not.toContain('harness-hmr')
    await build({ root, configFile: false, plugins, logLevel: 'silent' })
    const server = await preview({
      root,
      configFile: false,
      plugins,
      logLevel: 'silent',
      preview: { port: 0, host: '127.0.0.1' }
    })
    onTestFinished(() => server.close())
    expect(server.config.plugins.map(({ name }) => name)).not.toContain('harness-hmr')
    expect(seq).toEqual([])
  })

  test('is inert where vitest loads the config', async () => {
    seq.length = 0
    const root = createFolder(files)
    const plugins = harnessHmr({ entry: 'harness.ts' })
    const server = await createServer({
      root,
      configFile: false,
      logLevel: 'silent',
      server: { port: anyPort(), host: '127.0.0.1' },
      plugins: [{ name: 'vitest' }, plugins]
    })
    onTestFinished(() => server.close())
    await server.listen()
    await turn()
    expect(server.httpServer?.listening).toBe(true)
    expect(harnessOf(plugins[0])).toBeUndefined()
    expect(seq).toEqual([])
  })

  test('leaves a user of the ssr environment its own hot updates', async () => {
    const updates: string[] = []
    let seen = () => {}
    const updated = new Promise<void>(resolve => (seen = resolve))
    const observer: Plugin = {
      name: 'observer',
      hotUpdate({ modules }) {
        if (updates.push(`${this.environment.name} ${modules.length}`) === 3) seen()
      }
    }
    const app = await createApp({ ...files, 'ssr.ts': 'export const a = 1' }, {}, { plugins: [observer] })
    await app.next('ready')
    await app.server.environments['ssr'].transformRequest('/ssr.ts')
    app.write('ssr.ts', 'export const a = 2')
    await updated
    expect(updates).toEqual(['client 0', 'ssr 1', 'harness 0'])
  })

  test('boots in middleware mode, and stops with the server', async () => {
    const app = await createApp(
      {
        ...files,
        'harness.ts': `export default function harness(ctx) { ctx.effect(() => () => seq.push('disposed')) }`
      },
      {},
      { server: { middlewareMode: true, ws: false } }
    )
    await app.next('ready')
    await app.server.close()
    expect(seq).toEqual(['disposed'])
  })

  test('boots once more after a server restart, when the old harness is gone', async () => {
    const app = await createApp({
      'harness.ts': `export default function harness(ctx) {
        seq.push('up')
        ctx.effect(() => async () => {
          await new Promise(resolve => setImmediate(resolve))
          seq.push('down')
        })
      }`
    })
    await app.next('ready')
    await app.server.restart()
    await app.follow()
    expect(seq).toEqual(['up', 'down', 'up'])
  })
})

describe('options', () => {
  test.each<[string, unknown, string]>([
    [
      'no entry',
      {},
      'harness-hmr: option "entry" takes the path of the module that composes the harness, got undefined'
    ],
    [
      'a negative time',
      { entry: 'a', grace: -1 },
      'harness-hmr: option "grace" takes milliseconds, 0 or more, or Infinity, got -1'
    ],
    [
      'a time in words',
      { entry: 'a', deadline: '5s' },
      'harness-hmr: option "deadline" takes milliseconds, 0 or more, or Infinity, got "5s"'
    ],
    [
      'an unknown option',
      { entri: 'a', debounce: 1 },
      'harness-hmr: unknown option "entri". Options are entry, config, inline, grace, warnAfter, deadline'
    ],
    [
      'inline that is no array',
      { entry: 'a', inline: 'x' },
      'harness-hmr: option "inline" takes an array of package names and patterns, got "x"'
    ]
  ])('%s is refused with what it takes', (_, options, message) => {
    expect(() => harnessHmr(options as Options)).toThrow(message)
  })
})

describe('an entry', () => {
  test('that does not exist is named, with the remedy', async () => {
    const app = await createApp({ 'other.ts': '' })
    expect((await app.next('failed')).message).toMatch(
      /^entry ".*harness\.ts" does not exist\. Set `harnessHmr\(\{ entry \}\)`/
    )
  })

  test('without a plugin is named, with the remedy', async () => {
    const app = await createApp({ 'harness.ts': 'export const nothing = 1' })
    expect((await app.next('failed')).message).toMatch(
      /^entry ".*harness\.ts" exports no plugin\. Its default export must be/
    )
  })

  test('beside an older cordis is refused, with the version to install', async () => {
    const old = `exports.Context = class Context {}\nexports.Service = class Service {}`
    const app = await createApp(
      {
        'app/harness.ts': `import 'cordis'\nexport default function harness() {}`,
        'app/node_modules/cordis/index.js': old,
        'app/node_modules/@deepseek-ai/cordis/index.js': ''
      },
      { entry: 'app/harness.ts' }
    )
    expect((await app.next('failed')).message).toMatch(
      /^entry ".*harness\.ts": "cordis" is older than Cordis 4\. Install it beside the entry: npm install cordis@4/
    )
  })

  test('that brings two copies of cordis is refused, and both are named', async () => {
    const copy = `export class Context {}\nexport class Service {}\nexport class Fiber {}`
    const app = await createApp({
      'harness.ts': `import 'cordis'\nimport './copy.ts'\nexport default function harness() {}`,
      'copy.ts': copy
    })
    expect((await app.next('failed')).message).toMatch(/^two copies of cordis are loaded: .*cordis.* and .*copy\.ts/)
  })
})
