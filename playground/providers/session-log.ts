import type { Context } from 'cordis'
import type { LogBackend } from './session-log/backend.ts'
import { fileLog } from './session-log/files.ts'
import { memoryLog } from './session-log/memory.ts'

/** Options of {@link SessionLog}. */
export interface SessionLogConfig {
  /** The directory of the session files; without it the sessions are kept in `memory`. */
  dir?: string
  /** Outlives a reload of the log when its owner keeps it. */
  memory?: Map<string, string[]>
}

declare module 'cordis' {
  interface Context {
    sessionLog: SessionLog
  }
}

/** What may be a session id: it becomes a file name as it is, on every system. */
const SAFE_ID = /^[A-Za-z0-9](?:[A-Za-z0-9._-]{0,125}[A-Za-z0-9_-])?$/
const DEVICE = /^(?:con|prn|aux|nul|com\d|lpt\d)(?:\.|$)/i

/** The durable lines of every session (`ctx.sessionLog`), in files or in memory. */
export class SessionLog {
  private readonly backend: LogBackend
  private readonly users = new Set<Promise<void>>()

  constructor(ctx: Context, { dir, memory = new Map() }: SessionLogConfig = {}) {
    this.backend = dir === undefined ? memoryLog(memory) : fileLog(dir, message => ctx.logger.warn(message))
    const provide = () => ctx.reflect.provide('sessionLog', this)
    const { backend, users } = this
    ctx.effect(function* () {
      yield () => backend.close().catch(error => ctx.logger.error(error))
      // When the whole harness ends, Cordis does not wait for dependents that are disposed at the same time.
      yield () => Promise.all(users)
      yield provide()
    }, 'sessionLog.lifecycle()')
  }

  /** Keeps the log open until the function that is returned has been called. */
  retain(): () => void {
    let release!: () => void
    const use = new Promise<void>(resolve => (release = resolve)).then(() => void this.users.delete(use))
    this.users.add(use)
    return release
  }

  /** The ids on record. */
  ids(): string[] {
    return this.backend.ids().filter(id => isSafe(id))
  }

  /**
   * The records of a session, oldest first; none when it is not on record.
   * @throws when the id is not safe or a record is unreadable.
   */
  read(id: string): unknown[] {
    assertSafe(id)
    return this.backend.read(id).map((line, index) => parse(id, line, index))
  }

  /**
   * Puts a record on a session. It survives the end of the process when this returns.
   * @throws when the id is not safe or the record cannot be written; then nothing of it was.
   */
  append(id: string, record: object): void {
    assertSafe(id)
    this.backend.append(id, JSON.stringify(record))
  }

  /** Resolves when what was appended survives a loss of power, too. */
  flush(id: string): Promise<void> {
    return this.backend.flush(id)
  }
}

function isSafe(id: string): boolean {
  return SAFE_ID.test(id) && !DEVICE.test(id)
}

function assertSafe(id: string): void {
  if (!isSafe(id)) throw new Error(`session "${id}": the id is not a safe file name`)
}

function parse(id: string, line: string, index: number): unknown {
  try {
    return JSON.parse(line)
  } catch (cause) {
    throw new Error(`session "${id}": line ${index + 1} is unreadable`, { cause })
  }
}

export default SessionLog
