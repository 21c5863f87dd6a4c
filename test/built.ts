/** The package as it is published: built into a temporary folder, and run by Node in a process of its own. */
import { spawn, spawnSync, type ChildProcessByStdio } from 'node:child_process'
import { cpSync, mkdtempSync, realpathSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { Readable } from 'node:stream'
import { fileURLToPath } from 'node:url'
import { afterAll, beforeAll, onTestFinished } from 'vitest'
import { linkPackages } from './packages.ts'

const repository = fileURLToPath(new URL('..', import.meta.url))

/** How a process has ended. */
export interface Ended {
  code: number | null
  signal: string | null
  stdout: string
  stderr: string
}

/** A process that runs. */
export interface Process {
  child: ChildProcessByStdio<null, Readable, Readable>
  /** Resolves when stdout or stderr have shown a text. */
  shows(text: string): Promise<void>
  ended: Promise<Ended>
}

/** The package, built once for the tests of a file; in its folder `import 'harness-hmr/…'` finds it. */
export function builtPackage(): { folder: string; cli: string } {
  const folder = realpathSync(mkdtempSync(join(tmpdir(), 'harness-hmr-built-')))
  const cli = join(folder, 'dist/cli.js')
  beforeAll(() => {
    cpSync(join(repository, 'package.json'), join(folder, 'package.json'))
    linkPackages(folder)
    const tsc = join(repository, 'node_modules/typescript/bin/tsc')
    const config = join(repository, 'tsconfig.build.json')
    const { status, stdout } = spawnSync(process.execPath, [tsc, '-p', config, '--outDir', join(folder, 'dist')])
    if (status !== 0) throw new Error(`the package does not build:\n${String(stdout)}`)
  })
  afterAll(() => rmSync(folder, { recursive: true, force: true, maxRetries: 5 }))
  return { folder, cli }
}

/** Runs Node on a script; ended with the test at the latest. */
export function run(args: string[], cwd: string): Process {
  // Of vitest's environment the process needs nothing, and would behave differently with it.
  const { VITEST: _, NODE_ENV: __, ...env } = process.env
  const child = spawn(process.execPath, args, {
    cwd,
    env: { ...env, NO_COLOR: '1', FORCE_COLOR: undefined },
    stdio: ['ignore', 'pipe', 'pipe']
  })
  onTestFinished(() => void child.kill('SIGKILL'))
  const text = { stdout: '', stderr: '' }
  const waiting = new Set<() => void>()
  for (const name of ['stdout', 'stderr'] as const) {
    child[name].setEncoding('utf8').on('data', (chunk: string) => {
      text[name] += chunk
      for (const look of waiting) look()
    })
  }
  const ended = new Promise<Ended>((resolve, reject) => {
    child.on('error', reject)
    child.on('close', (code, signal) => resolve({ code, signal, ...text }))
  })
  return {
    child,
    ended,
    shows: wanted =>
      new Promise((resolve, reject) => {
        const look = () => {
          if (!`${text.stdout}${text.stderr}`.includes(wanted)) return
          waiting.delete(look)
          resolve()
        }
        waiting.add(look)
        void ended.then(({ stderr }) => reject(new Error(`ended before it showed "${wanted}":\n${stderr}`)))
        look()
      })
  }
}
