/** The real dev command, in a process of its own, on a copy of the repository. */
import { type ChildProcess, spawn } from 'node:child_process'
import { cpSync, mkdtempSync, readFileSync, realpathSync, rmSync, writeFileSync } from 'node:fs'
import { once } from 'node:events'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { stripVTControlCharacters } from 'node:util'
import { onTestFinished } from 'vitest'
import { promptly } from './promptly.ts'
import { linkPackages } from './packages.ts'
import { anyPort } from './port.ts'

const repository = fileURLToPath(new URL('..', import.meta.url))

/** A copy of what `npm run dev` needs. */
export class Copy {
  readonly root: string

  constructor() {
    this.root = realpathSync(mkdtempSync(join(tmpdir(), 'harness-hmr-dev-')))
    onTestFinished(() => rmSync(this.root, { recursive: true, force: true, maxRetries: 5 }))
    for (const name of ['package.json', 'tsconfig.json', 'vite.config.ts', 'plugin', 'playground']) {
      const filter = (source: string) => !/\.(sessions|scratch)/.test(source)
      cpSync(join(repository, name), join(this.root, name), { recursive: true, filter })
    }
    linkPackages(this.root)
  }

  read(file: string): string {
    return readFileSync(join(this.root, file), 'utf8')
  }

  write(file: string, source: string): void {
    writeFileSync(join(this.root, file), source)
  }

  /** Changes a file; fails when nothing would change. */
  edit(file: string, change: (source: string) => string): void {
    const before = this.read(file)
    const after = change(before)
    if (after === before) throw new Error(`edit of "${file}" changes nothing`)
    this.write(file, after)
  }
}

/** A running dev command. */
export class DevServer {
  readonly process: ChildProcess
  /** What the command printed, without colours. */
  readonly lines: string[] = []
  /** What the probe in the harness sent. */
  readonly messages: Record<string, unknown>[] = []
  readonly exited: Promise<[code: number | null, signal: NodeJS.Signals | null]>
  readonly #changed = new Set<() => void>()

  constructor(
    { root }: Copy,
    command = [process.execPath, 'node_modules/vite/bin/vite.js', '--port', String(anyPort())]
  ) {
    const [file, ...args] = command as [string, ...string[]]
    // A group of its own, so that a signal reaches all of it, as Ctrl-C in a terminal does.
    const detached = process.platform !== 'win32'
    const env = { ...process.env, NO_COLOR: '1', VITEST: undefined, NODE_OPTIONS: undefined }
    this.process = spawn(file, args, { cwd: root, detached, env, stdio: ['ignore', 'pipe', 'pipe', 'ipc'] })
    this.exited = once(this.process, 'exit') as never
    onTestFinished(() => this.kill())
    for (const stream of [this.process.stdout, this.process.stderr]) {
      let rest = ''
      stream!.setEncoding('utf8').on('data', (chunk: string) => {
        const lines = (rest + chunk).split('\n')
        rest = lines.pop()!
        this.lines.push(...lines.map(line => stripVTControlCharacters(line)))
        this.#tell()
      })
    }
    this.process.on('message', message => {
      this.messages.push(message as Record<string, unknown>)
      this.#tell()
    })
    void this.exited.then(() => this.#tell())
  }

  /** Resolves when `find` finds something in what was printed and sent. */
  async until<T>(what: string, find: () => T | undefined | false, ms = 15_000): Promise<T> {
    let check = () => {}
    const found = new Promise<T>(resolve => {
      check = () => {
        const result = find()
        if (result !== undefined && result !== false) resolve(result)
      }
    })
    this.#changed.add(check)
    check()
    try {
      return await promptly(found, what, ms)
    } catch (error) {
      throw new Error(`${(error as Error).message}\n${this.lines.slice(-30).join('\n')}`, { cause: error })
    } finally {
      this.#changed.delete(check)
    }
  }

  /** Resolves with the first line that matches. */
  line(pattern: RegExp, from = 0): Promise<string> {
    return this.until(`line ${pattern}`, () => this.lines.slice(from).find(line => pattern.test(line)))
  }

  /** Sends a command to the probe. */
  send(message: object): void {
    this.process.send(message)
  }

  /** Sends a signal to the command and all that it started. */
  signal(signal: NodeJS.Signals): void {
    if (process.platform === 'win32') this.process.kill(signal)
    else process.kill(-this.process.pid!, signal)
  }

  /** Ends it, if it still runs. */
  kill(): void {
    try {
      this.signal('SIGKILL')
    } catch {
      // It has ended.
    }
  }

  #tell(): void {
    for (const check of this.#changed) check()
  }
}
