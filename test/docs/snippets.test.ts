/** What README and docs show is what works: their TypeScript is put into a project, checked by the compiler, and run. */
import { mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { expect, test } from 'vitest'
import { builtPackage, run } from '../fixtures/built.ts'

const repository = fileURLToPath(new URL('../..', import.meta.url))
const built = builtPackage()

/** The TypeScript of a page, block by block. */
const blocks = (page: string): string[] =>
  [...readFileSync(join(repository, page), 'utf8').matchAll(/^```ts\n(.*?)^```/gms)].map(([, code = '']) => code)

/** Splits a block where its statements begin that need something around them. */
function split(code: string, at: string): [string, string] {
  const start = code.indexOf(at)
  if (start < 0) throw new Error(`no "${at}" in\n${code}`)
  return [code.slice(0, start), code.slice(start)]
}

const [config = '', harness = '', parking = '', scope = '', leak = '', ...rest] = blocks('README.md')
const [leakTest = '', edit = '', matcher = ''] = blocks('docs/testing.md')
const [yml = ''] = blocks('docs/cordis-yml.md')
const [inside = ''] = blocks('docs/reload.md')
const [timer = ''] = blocks('docs/leaks.md')
const [parkingTypes, parkingCode] = split(parking, 'ctx.on(')
const [scopeImport, scopeCode] = split(scope, 'const initiators')

/** The project that README's blocks are the parts of. */
const PROJECT = {
  'vite.config.ts': config,
  'src/harness.ts': harness,
  'src/providers/agents.ts': `
    import { type Context, Service } from 'cordis'
    ${scopeImport}
    interface Agent { id: string; runLoop(): Promise<void> }
    const agent: Agent = { id: 'ada', runLoop: async () => {} }
    export default class Agents extends Service {
      constructor(ctx: Context) {
        super(ctx, 'agents')
        ${scopeCode}
      }
    }`,
  'src/providers/agent-loop.ts': `
    import type { Context } from 'cordis'
    ${parkingTypes}
    const driver = {
      async park(_: { signal: AbortSignal }) { (globalThis as { parked?: number }).parked = 1 }
    }
    export const inject = ['agents']
    const poll = () => {}
    export default function agentLoop(ctx: Context) {
      ${parkingCode}
      ${timer}
    }`,
  'test/leak.test.ts': leakTest,
  'test/readme.test.ts': `
    import assert from 'node:assert/strict'
    import { expect, test } from 'vitest'
    import { createHarness, matchers } from 'harness-hmr/testing'
    expect.extend(matchers)
    test('the leak test of README, and its driver has parked', async () => {
      ${leak}
      expect((globalThis as { parked?: number }).parked).toBe(1)
    })
    test('an edit and the matcher by itself', async () => {
      const harness = await createHarness({ entry: 'src/harness.ts' })
      ${edit}
      await harness.reload('src/providers/agents.ts')
      ${matcher}
      await harness.close()
    })`,
  // Only checked: an app of rows, and code that talks to the plugin.
  'checked/vite.config.ts': yml,
  'checked/inside.ts': `
    import type { Context } from 'cordis'
    ${inside}
    export const ask = (ctx: Context) => ctx.get('harnessHmr')?.request('src/providers/agents.ts').when`,
  'vitest.config.ts': `
    import { mergeConfig } from 'vitest/config'
    import config from './vite.config.ts'
    export default mergeConfig(config, { test: { include: ['test/*.test.ts'] } })`,
  // As strict as the repository's own, but for names that only the text around a snippet uses.
  'tsconfig.json': JSON.stringify({
    extends: join(repository, 'tsconfig.json'),
    compilerOptions: { paths: {}, noUnusedLocals: false, noUnusedParameters: false },
    include: ['src', 'test', 'checked', 'vite.config.ts']
  })
}

test('every block of TypeScript in README and docs is one that these tests know', () => {
  const pages = readdirSync(join(repository, 'docs')).filter(name => name.endsWith('.md'))
  const counts = Object.fromEntries(pages.map(name => [name, blocks(`docs/${name}`).length]).filter(([, n]) => n !== 0))
  // Those of dsh.md need packages that the example installs: `npm run test:dsh` runs them.
  expect(counts).toEqual({ 'cordis-yml.md': 1, 'dsh.md': 2, 'leaks.md': 1, 'reload.md': 1, 'testing.md': 3 })
  expect(rest).toEqual([])
})

test('they are right for the compiler, and the project of README reloads, parks, and releases everything', async () => {
  for (const [file, text] of Object.entries(PROJECT)) {
    mkdirSync(dirname(join(built.folder, file)), { recursive: true })
    writeFileSync(join(built.folder, file), text)
  }
  const bin = (path: string) => join(built.folder, 'node_modules', path)
  const checked = await run([bin('typescript/bin/tsc'), '-p', built.folder], built.folder).ended
  expect(checked.stdout).toBe('')
  const tested = await run([bin('vitest/vitest.mjs'), 'run', '--root', built.folder], built.folder).ended
  expect(tested).toMatchObject({ code: 0, stdout: expect.stringContaining('3 passed') as string })
}, 60_000)
