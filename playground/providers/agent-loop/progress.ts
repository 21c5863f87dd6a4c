import type { Message } from '../llm.ts'
import type { Session, SessionEvent, ToolCallRecord } from '../sessions.ts'

/** A prompt without an end. */
export interface QueuedPrompt {
  promptId: string
  text: string
}

/** A tool call without a result. */
export interface OpenCall extends ToolCallRecord {
  /** It had begun; whether it also took effect is not known once its driver is gone. */
  started: boolean
}

/** The turn that is open, the same object until it ends. */
export interface OpenTurn {
  promptId: string
  steps: number
  calls: OpenCall[]
}

/** Where an agent stands, read from its session and nothing else: this is why an agent can be resumed anywhere. */
export class Progress {
  private readonly session: Session
  private seen = 0
  private readonly waiting: QueuedPrompt[] = []
  private readonly said: Message[] = []
  private open: OpenTurn | undefined

  constructor(session: Session) {
    this.session = session
  }

  /** The prompts without an end, oldest first; the first one is answered first. */
  get queue(): readonly QueuedPrompt[] {
    return this.read().waiting
  }

  /** The turn that is open, if any. */
  get turn(): OpenTurn | undefined {
    return this.read().open
  }

  /** What the model is told. */
  get messages(): readonly Message[] {
    return this.read().said
  }

  private read(): this {
    const { events } = this.session
    while (this.seen < events.length) this.apply(events[this.seen++]!)
    return this
  }

  private apply({ type, data }: SessionEvent): void {
    switch (type) {
      case 'created':
      case 'edited':
        return
      case 'notice':
        this.said.push({ role: 'notice', text: data.text })
        return
      case 'prompt':
        this.waiting.push({ promptId: data.promptId, text: data.text })
        return
      case 'turn':
        this.open = { promptId: data.promptId, steps: 0, calls: [] }
        this.said.push({
          role: 'user',
          text: this.waiting.find(prompt => prompt.promptId === data.promptId)?.text ?? ''
        })
        return
      case 'step':
        if (!this.open) return
        this.open.steps++
        this.open.calls = data.calls.map(call => ({ ...call, started: false }))
        this.said.push({ role: 'assistant', text: data.text, calls: data.calls.length })
        return
      case 'call':
        for (const call of this.open?.calls ?? []) if (call.callId === data.callId) call.started = true
        return
      case 'result':
        if (this.open) this.open.calls = this.open.calls.filter(call => call.callId !== data.callId)
        this.said.push({ role: 'tool', text: 'output' in data ? data.output : `error: ${data.error}` })
        return
      case 'answer':
        this.said.push({ role: 'assistant', text: data.text, calls: 0 })
        return this.close(data.promptId)
      case 'failed':
      case 'cancelled':
        return this.close(data.promptId)
      case 'ended':
        this.open = undefined
        this.waiting.length = 0
        return
      default:
        return type satisfies never
    }
  }

  private close(promptId: string): void {
    if (this.open?.promptId === promptId) this.open = undefined
    const index = this.waiting.findIndex(prompt => prompt.promptId === promptId)
    if (index >= 0) this.waiting.splice(index, 1)
  }
}

/** Whether a tool call waits for its result, in a turn that goes on. */
export function isOpenCall(events: readonly SessionEvent[], callId: string): boolean {
  const over = new Set<string>()
  for (const { type, data } of events.toReversed()) {
    if (type === 'ended' || (type === 'result' && data.callId === callId)) return false
    if (type === 'answer' || type === 'failed' || type === 'cancelled') over.add(data.promptId)
    if (type === 'step' && data.calls.some(call => call.callId === callId)) return !over.has(data.promptId)
  }
  return false
}
