import { Context } from 'cordis'
import type { Agent, ParentRequest, PromptOptions, PromptReceipt } from '../agents.ts'
import type { Session, SessionEvent } from '../sessions.ts'
import type { Driver } from './driver.ts'

/** An agent that the loop drives. */
export class LoopAgent implements Agent {
  readonly id: string
  readonly session: Session
  /** Set before the agent is published. */
  ctx!: Context
  /** Set before the agent is published, and what ends it. */
  driver!: Driver
  finish: () => unknown = () => {}
  /** Nobody's unload ends the agent any more. */
  leave: () => unknown = () => {}
  private readonly limit: () => AbortSignal | undefined

  /** `limit` is how long its caller may wait for what comes only after a teardown. */
  constructor(session: Session, limit: () => AbortSignal | undefined) {
    this.id = session.id
    this.session = session
    this.limit = limit
  }

  get parent(): ParentRequest | undefined {
    return parentOf(this.session.events)
  }

  get cwd(): string {
    const [first] = this.session.events
    return (first?.type === 'created' && first.data.cwd) || process.cwd()
  }

  get idle(): boolean {
    return this.driver.progress.queue.length === 0
  }

  prompt(text: string, { promptId = `p${this.session.events.length}`, from }: PromptOptions = {}): PromptReceipt {
    const known = this.session.events.some(event => event.type === 'prompt' && event.data.promptId === promptId)
    if (!known) this.session.append('prompt', { promptId, text, ...(from && { from }) })
    this.driver.wake()
    return { promptId, answer: signal => this.answer(promptId, signal) }
  }

  answer(promptId: string, signal?: AbortSignal): Promise<string> {
    return new Promise((resolve, reject) => {
      const signals = [signal, this.limit()].filter(signal => signal !== undefined)
      const waiter = { promptId, resolve, reject, signals }
      const end = this.session.events.find(event => isEndOf(event, promptId))
      if (end) settle(waiter, end)
      // On the root: the answer may be given by the next incarnation of this agent.
      else awaitEnd(this.ctx.root, this.id, waiter)
    })
  }

  cancel(promptId?: string): boolean {
    const { progress } = this.driver
    const target = promptId ?? progress.turn?.promptId
    if (target === undefined || !progress.queue.some(prompt => prompt.promptId === target)) return false
    const running = progress.turn?.promptId === target
    this.session.append('cancelled', { promptId: target })
    if (running) this.driver.cut()
    return true
  }

  async end(): Promise<void> {
    if (this.session.closed) return
    this.session.append('ended', {})
    await this.finish()
  }

  /** Events of this agent reach everybody except the scopes of other agents. */
  [Context.filter](ctx: Context): boolean {
    return !('agent' in ctx) || !ctx.agent || ctx.agent === this
  }
}

/** Who asked for the agent of this record. */
export function parentOf([first]: readonly SessionEvent[]): ParentRequest | undefined {
  return first?.type === 'created' ? first.data.parent : undefined
}

/** Who waits for the end of a prompt. */
interface Waiter {
  promptId: string
  resolve: (text: string) => void
  reject: (error: unknown) => void
  signals: AbortSignal[]
}

function isEndOf({ type, data }: SessionEvent, promptId: string): boolean {
  if (type === 'ended') return true
  return (type === 'answer' || type === 'failed' || type === 'cancelled') && data.promptId === promptId
}

function settle({ promptId, resolve, reject }: Waiter, { type, data }: SessionEvent): void {
  if (type === 'answer') return resolve(data.text)
  const reason = type === 'failed' ? data.error : type === 'cancelled' ? 'cancelled' : 'the agent has ended'
  reject(new Error(`prompt "${promptId}": ${reason}`))
}

function awaitEnd(root: Context, id: string, waiter: Waiter): void {
  const { promptId, signals, reject } = waiter
  const abort = () => {
    reject(signals.find(signal => signal.aborted)!.reason)
    void leave()
  }
  const leave = root.effect(function* () {
    yield root.on('session/event', ({ sessionId, event }) => {
      if (sessionId !== id || !isEndOf(event, promptId)) return
      settle(waiter, event)
      void leave()
    })
    yield () => {
      for (const signal of signals) signal.removeEventListener('abort', abort)
      // Means nothing to a waiter that has its answer.
      reject(new Error(`prompt "${promptId}": the harness has ended`))
    }
  }, `agent.answer("${promptId}")`)
  if (signals.some(signal => signal.aborted)) abort()
  else for (const signal of signals) signal.addEventListener('abort', abort)
}
