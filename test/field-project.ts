/** A dev server in a process of its own, on a small project whose provider tells when it comes and goes. */
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { createFolder } from './app.ts'
import { type Copy, DevServer } from './dev-server.ts'

export const plugin = fileURLToPath(new URL('../plugin/index.ts', import.meta.url))
/** A vite.config.ts that gives `n` to the harness. */
export const config = (n: number) => `
  import { harnessHmr } from '${plugin}'
  export default { clearScreen: false, plugins: [harnessHmr({ entry: 'harness.ts', config: { n: ${n} } })] }`
/** Listens on an address that only one instance can have, and tells the test when it comes and goes. */
export const agents = (version: number, teardown = '') => `
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
/** The files of the project. */
export const files = {
  'package.json': '{ "type": "module" }',
  'vite.config.ts': config(0),
  'harness.ts': `import agents from './agents.ts'\nexport default (ctx: any, config: any) => void ctx.plugin(agents, config)`,
  'agents.ts': agents(1)
}

/** A dev server in a process of its own, on a folder with `files`. */
export class Project {
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

  until(state: string, ms = 15_000): Promise<unknown> {
    return this.server.until(state, () => this.lives.at(-1) === state, ms)
  }

  /** Instances that overlapped another, and addresses that were taken. */
  get overlaps(): unknown[] {
    const errors = this.server.messages.filter(({ kind }) => kind === 'error')
    return [...errors, ...this.lives.filter((life, i) => !life.startsWith(i % 2 ? 'down' : 'up'))]
  }
}
