import { Context } from 'cordis'
import { tell } from '../listeners.ts'
import type { SessionLog } from './session-log.ts'

/** Who asked for a child agent, as its records say it. */
export interface ParentRequest {
  agentId: string
  callId: string
}

/** One call of a tool, as the model asked for it. */
export interface ToolCallRecord {
  callId: string
  name: string
  args: Record<string, unknown>
}

/** What each type of event says; the agent's whole state is derived from these. */
export interface SessionEventData {
  /** The agent exists. */
  created: { agentId: string; parent?: ParentRequest; cwd?: string }
  /** A prompt waits for its turn. */
  prompt: { promptId: string; text: string; from?: ParentRequest }
  /** The turn that answers a prompt has begun. */
  turn: { promptId: string }
  /** The model asked for tool calls. */
  step: { promptId: string; text: string; calls: ToolCallRecord[] }
  /** A tool call has begun. */
  call: { callId: string }
  /** How a tool call ended. */
  result: { callId: string; output: string } | { callId: string; error: string }
  /** The agent has edited a source file of the harness. */
  edited: { file: string }
  /** Something that the agent has to know before its next step: how its edit came out. */
  notice: { text: string; about: string }
  /** The three ends of a prompt. */
  answer: { promptId: string; text: string }
  failed: { promptId: string; error: string }
  cancelled: { promptId: string }
  /** The agent is not resumed. */
  ended: {}
}

/** One entry of a session; `seq` counts from 0 without a gap. */
export type SessionEvent<T extends keyof SessionEventData = keyof SessionEventData> = {
  [K in T]: { seq: number; time: number; type: K; data: SessionEventData[K] }
}[T]

declare module 'cordis' {
  interface Context {
    sessions: SessionStore
  }
  interface Events {
    /** An event was put on record. */
    'session/event'(update: { sessionId: string; event: SessionEvent }): void
  }
}

type Write = (event: SessionEvent) => void

/** A session that is open for writing; it stays readable when it is closed. */
export class Session {
  readonly id: string
  readonly events: readonly SessionEvent[]
  private readonly write: Write
  private readonly sync: () => Promise<void>
  private open = true

  constructor(id: string, events: readonly SessionEvent[], write: Write, sync: () => Promise<void>) {
    this.id = id
    this.events = events
    this.write = write
    this.sync = sync
  }

  /** Whether {@link append} is refused. */
  get closed(): boolean {
    return !this.open || this.events.at(-1)?.type === 'ended'
  }

  /**
   * Puts an event on record, before anything else happens.
   * @throws when the session is closed, has ended, or was opened again since: there is one writer.
   */
  append<T extends keyof SessionEventData>(type: T, data: SessionEventData[T]): void {
    if (this.closed) throw new Error(`session "${this.id}" is closed`)
    this.write({ seq: this.events.length, time: Date.now(), type, data } as SessionEvent)
  }

  /** Resolves when every event has reached the disk. */
  async flush(): Promise<void> {
    if (this.open) await this.sync()
  }

  /** No event is accepted any more. */
  close(): void {
    this.open = false
  }
}

/** The append-only sessions (`ctx.sessions`), on top of `ctx.sessionLog`. */
export class SessionStore {
  static inject = ['sessionLog']
  private readonly ctx: Context
  private readonly log: SessionLog
  private readonly cache = new Map<string, SessionEvent[]>()
  private readonly writers = new Map<string, Session>()
  private readonly users = new Set<Promise<void>>()

  constructor(ctx: Context) {
    this.ctx = ctx
    this.log = ctx.sessionLog
    const { log, users } = this
    const close = () => this.writers.forEach(session => session.close())
    const provide = () => ctx.reflect.provide('sessions', this)
    ctx.effect(function* () {
      yield log.retain()
      yield close
      // When the whole harness ends, Cordis does not wait for dependents that are disposed at the same time.
      yield () => Promise.all(users)
      yield provide()
    }, 'sessions.lifecycle()')
  }

  /** Keeps the sessions open until the function that is returned has been called. */
  retain(): () => void {
    let release!: () => void
    const use = new Promise<void>(resolve => (release = resolve)).then(() => void this.users.delete(use))
    this.users.add(use)
    return release
  }

  /** The ids on record. */
  ids(): string[] {
    return this.log.ids()
  }

  /**
   * The events on record, oldest first; none for an unknown id.
   * @throws when the record is damaged.
   */
  read(id: string): readonly SessionEvent[] {
    return this.load(id)
  }

  /**
   * Opens a new session. It is on record with its first event.
   * @throws when the id is taken.
   */
  create(id: string): Session {
    if (this.load(id).length > 0 || this.writers.get(id)?.closed === false) throw new Error(`session "${id}" exists`)
    return this.writer(id)
  }

  /**
   * Opens a session on record; whoever had it open cannot write to it any more.
   * @throws when it is not on record or damaged.
   */
  open(id: string): Session {
    if (this.load(id).length === 0) throw new Error(`session "${id}" is not on record`)
    return this.writer(id)
  }

  private writer(id: string): Session {
    const events = this.load(id)
    this.cache.set(id, events)
    this.writers.get(id)?.close()
    const session = new Session(
      id,
      events,
      event => this.write(id, events, event),
      () => this.log.flush(id)
    )
    this.writers.set(id, session)
    return session
  }

  private load(id: string): SessionEvent[] {
    const cached = this.cache.get(id)
    if (cached) return cached
    const events = this.log.read(id) as SessionEvent[]
    const gap = events.findIndex((event, index) => event.seq !== index)
    if (gap >= 0) throw new Error(`session "${id}": event ${gap} is missing`)
    if (events.length > 0) this.cache.set(id, events)
    return events
  }

  private write(id: string, events: SessionEvent[], event: SessionEvent): void {
    this.log.append(id, event)
    events.push(event)
    tell(this.ctx, audience(id), 'session/event', { sessionId: id, event }, `session "${id}"`)
  }
}

/** Everybody hears of a session, except other agents' own scopes. */
function audience(id: string): object {
  return { [Context.filter]: (ctx: Context) => !('agent' in ctx) || !ctx.agent || ctx.agent.id === id }
}

export default SessionStore
