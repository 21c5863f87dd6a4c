import {
  appendFileSync,
  closeSync,
  existsSync,
  fstatSync,
  fsync,
  ftruncateSync,
  mkdirSync,
  openSync,
  readFileSync,
  readdirSync,
  truncateSync,
  writeSync
} from 'node:fs'
import { join } from 'node:path'
import { promisify } from 'node:util'
import type { LogBackend } from './backend.ts'
import { lockDirectory } from './lock.ts'

const EXTENSION = '.jsonl'
const sync = promisify(fsync)

/**
 * Keeps every session in one file of `dir`, one line an event. An append has reached the file when it returns, so that a
 * killed process loses nothing; `flush` makes it reach the disk.
 */
export function fileLog(dir: string, warn: (message: string) => void): LogBackend {
  mkdirSync(dir, { recursive: true })
  const unlock = lockDirectory(dir)
  const open = new Map<string, number>()
  let closed = false
  const fileOf = (id: string) => join(dir, id + EXTENSION)

  function descriptor(id: string): number {
    if (closed) throw new Error(`session log "${dir}" is closed`)
    let fd = open.get(id)
    if (fd === undefined) open.set(id, (fd = openSync(fileOf(id), 'a')))
    return fd
  }

  return {
    ids: () =>
      readdirSync(dir)
        .filter(name => name.endsWith(EXTENSION))
        .map(name => name.slice(0, -EXTENSION.length)),
    read: id => (existsSync(fileOf(id)) ? readLines(fileOf(id), warn) : []),
    append: (id, line) => appendLine(descriptor(id), line),
    flush: async id => sync(descriptor(id)),
    async close() {
      closed = true
      try {
        await Promise.all([...open.values()].map(fd => sync(fd)))
      } finally {
        for (const fd of open.values()) closeSync(fd)
        open.clear()
        unlock()
      }
    }
  }
}

/** The whole line or nothing of it: a half of it would swallow the next one. */
function appendLine(fd: number, line: string): void {
  const data = Buffer.from(line + '\n')
  const { size } = fstatSync(fd)
  try {
    for (let written = 0; written < data.length;) written += writeSync(fd, data, written)
  } catch (error) {
    ftruncateSync(fd, size)
    throw error
  }
}

/** What follows the last line break was being written when the process died: it is put aside and cut off. */
function readLines(file: string, warn: (message: string) => void): string[] {
  const data = readFileSync(file)
  const end = data.lastIndexOf(0x0a) + 1
  if (end < data.length) {
    appendFileSync(file + '.bad', Buffer.concat([data.subarray(end), Buffer.from('\n')]))
    truncateSync(file, end)
    warn(`session file "${file}": the last line was torn, it is kept in ${file}.bad`)
  }
  return data.toString('utf8', 0, end).split('\n').slice(0, -1)
}
