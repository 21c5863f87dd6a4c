/** Starts a soak in a process of its own, in which V8 keeps no compiled code. */
import { fork } from 'node:child_process'
import { extname } from 'node:path'
import { fileURLToPath } from 'node:url'
import type { SoakMessage } from './process.ts'
import type { SoakReport } from './report.ts'
import type { SoakOptions, SoakProgress } from './soak.ts'

export { soakTable } from './table.ts'
export type { SoakReport } from './report.ts'
export type { SoakOptions, SoakProgress } from './soak.ts'

/** So much of what the harness prints is shown when its process ends too early. */
const TAIL = 2000

/**
 * Runs a soak. What the harness prints goes to `print`, when there is one.
 * @param signal - ends the process.
 * @throws when the soak could not be made, and when its process ends without a report.
 */
export async function runSoak(
  options: SoakOptions,
  on: { progress?(progress: SoakProgress): void; print?(text: string): void; signal?: AbortSignal } = {}
): Promise<SoakReport> {
  const script = fileURLToPath(new URL(`./process${extname(import.meta.url)}`, import.meta.url))
  const child = fork(script, {
    // V8's cache of compiled code grows with each version of a module, and looks like a leak.
    execArgv: [...process.execArgv, '--no-compilation-cache'],
    stdio: ['ignore', 'pipe', 'pipe', 'ipc'],
    signal: on.signal,
    killSignal: 'SIGKILL'
  })
  let printed = ''
  for (const stream of [child.stdout!, child.stderr!]) {
    stream.setEncoding('utf8').on('data', (text: string) => {
      printed = (printed + text).slice(-TAIL)
      on.print?.(text)
    })
  }
  child.send(options)
  return new Promise((resolve, reject) => {
    child.on('message', (message: SoakMessage) => {
      if ('progress' in message) on.progress?.(message.progress)
      else if ('report' in message) resolve(message.report)
      else reject(new Error(message.error))
    })
    child.on('error', reject)
    child.on('close', (code, signal) =>
      reject(new Error(`the process of the soak ended early (${signal ?? `exit code ${code}`})\n${printed}`.trimEnd()))
    )
  })
}
