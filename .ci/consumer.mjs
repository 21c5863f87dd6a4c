// `npm run test:consumer`: the package as a stranger has it. Packed, checked, installed from the tarball into empty projects
// outside of the repository, used there: a live edit, a soak, a leak test, types. Needs `npm run build` first, and the registry.
import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import { mkdirSync, readFileSync, statSync, writeFileSync } from 'node:fs'
import { delimiter, dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { nodeOf } from './node-lines.mjs'
import { npmScript, temporaryFolder } from './npm.mjs'

const PUBLINT = 'publint@0.3.25'
const ATTW = '@arethetypeswrong/cli@0.18.5'
const PNPM = 'pnpm@10'
/** Bytes that the packed package may have. */
const BUDGET = 400_000

const root = fileURLToPath(new URL('..', import.meta.url))
const npm = npmScript()
const folder = temporaryFolder('consumer')

const PROJECT = {
  'vite.config.ts': `
    import { defineConfig } from 'vite'
    import { harnessHmr } from 'harness-hmr'
    // Vite's root is a folder below, and one provider is a package of the workspace.
    export default defineConfig({
      root: 'app',
      plugins: [harnessHmr({ entry: 'harness.ts', inline: ['@consumer/greeter'] })]
    })`,
  'app/harness.ts': `
    import type { Context } from 'cordis'
    import greeter from '@consumer/greeter'
    import Agents from './providers/agents.ts'
    export default function harness(ctx: Context) {
      ctx.plugin(Agents)
      ctx.plugin(greeter)
    }`,
  'app/providers/agents.ts': `
    import { Service, type Context } from 'cordis'
    import { BoundaryScope } from 'harness-hmr/scope'
    export const version = 1
    export default class Agents extends Service {
      readonly scope = new BoundaryScope<{ id: string }>({ name: 'agents', label: agent => agent.id })
      constructor(ctx: Context) {
        super(ctx, 'agents')
        ctx.effect(() => () => this.scope.dispose())
        this.scope.run({ id: 'ada' }, () => {})
      }
    }`,
  'packages/greeter/package.json': JSON.stringify({
    name: '@consumer/greeter',
    version: '1.0.0',
    type: 'module',
    main: 'index.js'
  }),
  'packages/greeter/index.js': `
    export const version = 1
    export default function greeter(ctx) { ctx.provide('greeter', { version }) }`,
  'test/leak.test.ts': `
    import { expect, test } from 'vitest'
    import { createHarness, matchers } from 'harness-hmr/testing'
    expect.extend(matchers)
    test('agents release everything', async () => {
      const harness = await createHarness()
      await harness.reload('providers/agents.ts')
      await expect(harness).toHaveReleasedEverything()
      await harness.close()
    })`,
  'vitest.config.ts': `export default { test: { include: ['test/*.test.ts'] } }`,
  'plain.mjs': `
    // JavaScript, and no Vite: what production has of it.
    import { BoundaryScope } from 'harness-hmr/scope'
    const scope = new BoundaryScope({ name: 'plain' })
    if (scope.run(7, () => scope.current()) !== 7) throw new Error('lost')
    await scope.dispose()`,
  'tsconfig.json': JSON.stringify({
    compilerOptions: {
      target: 'ES2022',
      module: 'ESNext',
      moduleResolution: 'bundler',
      allowImportingTsExtensions: true,
      noEmit: true,
      strict: true,
      checkJs: false,
      allowJs: true,
      types: ['node']
    },
    include: ['app', 'vite.config.ts']
  }),
  'nodenext/tsconfig.json': JSON.stringify({
    compilerOptions: {
      target: 'ES2022',
      module: 'nodenext',
      moduleResolution: 'nodenext',
      noEmit: true,
      strict: true,
      types: ['node']
    },
    files: ['scope.mts']
  }),
  'nodenext/scope.mts': `
    import { BoundaryScope, type Boundary } from 'harness-hmr/scope'
    const scope = new BoundaryScope<number>({ name: 'typed' })
    export const open: Boundary[] = scope.boundaries()
    export const value: number | undefined = scope.current()`
}

/** No command here takes longer, in ms. */
const LIMIT = 240_000

/**
 * Starts a command whose text is read by this script: without the colors that a CI server asks for. It is killed at the limit.
 * `ended` resolves with its exit code, `shows` when it has printed something; `shows` rejects when it ends before.
 */
function start(node, args, cwd) {
  const { CI: _, FORCE_COLOR: __, ...inherited } = process.env
  const env = { ...inherited, NO_COLOR: '1', PATH: `${dirname(node)}${delimiter}${process.env.PATH}` }
  const child = spawn(node, args, {
    cwd,
    env,
    timeout: LIMIT,
    killSignal: 'SIGKILL',
    stdio: ['ignore', 'pipe', 'pipe']
  })
  const looks = new Set()
  const started = { child, text: '' }
  for (const stream of [child.stdout, child.stderr]) {
    stream.on('data', chunk => {
      started.text += chunk
      for (const look of looks) look()
    })
  }
  started.ended = new Promise((resolve, reject) => {
    child.on('error', reject)
    child.on('close', (code, signal) => resolve(signal ?? code))
  })
  started.shows = pattern =>
    new Promise((resolve, reject) => {
      looks.add(() => pattern.test(started.text) && resolve())
      void started.ended.then(code =>
        reject(new Error(`${args[0]} ended (${code}), without ${pattern}\n${started.text}`))
      )
    })
  return started
}

/** Runs a command; resolves with what it printed. @throws when it fails. */
async function run(node, args, cwd, { expected = 0 } = {}) {
  const started = start(node, args, cwd)
  const code = await started.ended
  if (code === expected) return started.text
  throw new Error(`${args.join(' ')}: ended with ${code}\n${started.text}`)
}

const quiet = ['--no-audit', '--no-fund', '--loglevel=error']
const tool = (name, ...args) =>
  run(process.execPath, [npm, 'exec', '--yes', '--loglevel=error', '--', name, ...args], folder)

async function pack() {
  await run(process.execPath, [npm, 'pack', '--ignore-scripts', '--pack-destination', folder, ...quiet], root)
  const { version } = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8'))
  const tarball = join(folder, `harness-hmr-${version}.tgz`)
  const { size } = statSync(tarball)
  console.log(`packed: ${Math.round(size / 1000)} kB, of ${BUDGET / 1000} kB`)
  assert.ok(size <= BUDGET, 'the package is within its budget')
  console.log(await tool(PUBLINT, tarball, '--strict'))
  console.log(await tool(ATTW, tarball, '--profile', 'esm-only'))
  return tarball
}

/** Installs the tarball in an empty project, by npm or by pnpm, with a version of Vite. */
async function install(name, tarball, node, vite) {
  const app = join(folder, name)
  for (const [file, text] of Object.entries(PROJECT)) {
    mkdirSync(dirname(join(app, file)), { recursive: true })
    writeFileSync(join(app, file), text)
  }
  const isPnpm = name.startsWith('pnpm')
  const manifest = {
    name: 'consumer',
    private: true,
    type: 'module',
    workspaces: isPnpm ? undefined : ['packages/*'],
    dependencies: { '@consumer/greeter': isPnpm ? 'workspace:*' : '*', cordis: '4.0.0-rc.10' },
    devDependencies: {
      '@types/node': '^20.19.43',
      'harness-hmr': `file:${tarball.replaceAll('\\', '/')}`,
      typescript: '^7.0.2',
      vite,
      vitest: '^4.1.12'
    }
  }
  writeFileSync(join(app, 'package.json'), JSON.stringify(manifest))
  if (isPnpm) {
    writeFileSync(join(app, 'pnpm-workspace.yaml'), 'packages: [packages/*]\n')
    await run(node, [npm, 'exec', '--yes', '--', PNPM, 'install', '--ignore-scripts'], app)
  } else await run(node, [npm, 'install', ...quiet], app)
  return app
}

/** What a stranger does with it. */
async function use(app, node) {
  const bin = (name, file) => join(app, 'node_modules', name, file)
  const cli = (...args) => [bin('harness-hmr', 'dist/cli.js'), ...args]
  const ask = async (cwd, expected) => JSON.parse(await run(node, cli('last', '--wait'), join(app, cwd), { expected }))
  const edit = (file, change) => writeFileSync(join(app, file), change(readFileSync(join(app, file), 'utf8')))
  const vite = start(node, [bin('vite', 'bin/vite.js'), '--host', '127.0.0.1'], app)
  try {
    await vite.shows(/ready\D+2 providers/)
    for (const [file, name] of [
      ['app/providers/agents.ts', 'agents'],
      ['packages/greeter/index.js', 'greeter']
    ]) {
      edit(file, source => source.replace('version = 1', 'version = 2'))
      const { live, last } = await ask('app', 0)
      assert.deepEqual([live, last.outcome, last.providers.map(provider => provider.name)], [true, 'reloaded', [name]])
    }
    edit('app/providers/agents.ts', source => `${source}\nconst = 1`)
    assert.equal((await ask('.', 1)).last.outcome, 'kept')
    edit('app/providers/agents.ts', source => source.replace('\nconst = 1', ''))
    assert.equal((await ask('.', 0)).live, true)
  } finally {
    vite.child.kill('SIGINT')
  }
  assert.equal(await vite.ended, 130)
  const soaked = JSON.parse(
    await run(node, cli('soak', '--reload', 'app/providers/agents.ts', '--times', '3', '--json'), app)
  )
  assert.deepEqual(soaked.outcomes, { reloaded: 3 })
  assert.match(await run(node, [bin('vitest', 'vitest.mjs'), 'run'], app), /1 passed/)
  await run(node, [join(app, 'plain.mjs')], app)
  const tsc = bin('typescript', 'bin/tsc')
  await run(node, [tsc, '-p', app], app)
  await run(node, [tsc, '-p', join(app, 'nodenext')], app)
}

const tarball = await pack()
for (const [name, line, vite] of [
  // The oldest that is supported, and the newest.
  ['npm-20', '20', '8.3.0'],
  ['pnpm-24', '24', '^8.3.0']
]) {
  const node = await nodeOf(line)
  const app = await install(name, tarball, node, vite)
  const { version } = JSON.parse(readFileSync(join(app, 'node_modules/vite/package.json'), 'utf8'))
  await use(app, node)
  console.log(`${name}: passed with vite ${version}`)
}
