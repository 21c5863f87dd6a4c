import { randomUUID } from 'node:crypto'
import { readFileSync, unlinkSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'

/**
 * Claims a directory for this process and returns the release. The lock of a process that has died is taken over, and
 * so is one of this very process: its earlier log is ending, or the process id has come round.
 * @throws when a living process holds the directory.
 */
export function lockDirectory(dir: string): () => void {
  const file = join(dir, '.lock')
  const claim = `${process.pid} ${randomUUID()}`
  const holder = Number.parseInt(readLock(file), 10)
  if (holder && holder !== process.pid && isAlive(holder)) {
    throw new Error(`session log "${dir}": in use by process ${holder}. If that is no harness, remove ${file}`)
  }
  if (holder) unlinkSync(file)
  // Fails when another process was faster.
  writeFileSync(file, claim, { flag: 'wx' })
  return () => {
    if (readLock(file) === claim) unlinkSync(file)
  }
}

function readLock(file: string): string {
  try {
    return readFileSync(file, 'utf8')
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return ''
    throw error
  }
}

function isAlive(pid: number): boolean {
  try {
    process.kill(pid, 0)
    return true
  } catch (error) {
    // A process of another user's is alive, too.
    return (error as NodeJS.ErrnoException).code === 'EPERM'
  }
}
