/** An agent that was stopped at its next step, and what it has to get back when a reload has disposed it. */
import { deferred } from './deferred.ts'
import type { Agent, Message } from './types.ts'

/** What is kept of an agent: nothing that would keep the agent itself, once it is gone. */
export class Parked {
  readonly id: string
  readonly #options: object
  readonly #cwd: string | undefined
  /** The agent, until it is disposed. */
  agent: Agent | undefined
  /** What happened in its session. */
  events: readonly unknown[]
  /** Taken out of the inbox by the step that waits, and in no transcript yet. */
  #claimed: readonly Message[] = []
  #nextStep: readonly Message[] = []
  #nextTurn: readonly Message[] = []
  /** Whether a turn of its was under way. */
  isMidTurn: boolean
  /** Whether who has taken its place knows less: nothing had kept its transcript. */
  isForgetful = false
  readonly #back = deferred()

  constructor(agent: Agent) {
    this.id = agent.id
    this.#options = agent.options
    this.#cwd = agent.session.header.cwd
    this.agent = agent
    this.events = agent.session.events
    this.isMidTurn = agent.status === 'running'
    // Not everybody asks.
    this.#back.promise.catch(() => {})
    this.look()
  }

  /** Resolves when it is back; rejects when it will not be. */
  get back(): Promise<void> {
    return this.#back.promise
  }

  /** How many messages wait for it. */
  get messages(): number {
    return this.#claimed.length + this.#nextStep.length + this.#nextTurn.length
  }

  /** It waits at a step. What a plugin has put in is put in again by itself. */
  waits(messages: readonly Message[], step: number): void {
    this.#claimed = messages.filter(({ source }) => source.kind !== 'plugin')
    this.isMidTurn = step > 1
    this.look()
  }

  /** Notes what is in its inbox; a disposal clears that. */
  look(): void {
    if (!this.agent) return
    const { nextStep, nextTurn } = this.agent.inbox
    this.#nextStep = [...nextStep]
    this.#nextTurn = [...nextTurn]
  }

  /** How it comes back by `agents.resume()`, and where nothing is on disk by `agents.create()`. */
  revival(isOnDisk: boolean): object {
    const { id, events: seed } = this
    const agentOptions = this.#options
    return isOnDisk
      ? { resumeSessionId: id, agentOptions }
      : { sessionId: id, seed, agentOptions, ...(this.#cwd !== undefined && { meta: { cwd: this.#cwd } }) }
  }

  /** Gives the messages to who has taken its place, under their own ids; a turn that was cut goes on with a notice. */
  giveTo(agent: Agent): void {
    if (this.isMidTurn) {
      for (const message of [...this.#claimed, ...this.#nextStep]) agent.send(message, 'next-step', false)
      agent.followup(notice())
    } else {
      for (const message of this.#nextStep) agent.send(message, 'next-step', false)
      for (const message of this.#claimed) agent.followup(message)
    }
    for (const message of this.#nextTurn) agent.followup(message)
    this.#back.resolve()
  }

  /** It does not come back. */
  lose(error: unknown): void {
    this.#back.reject(error)
  }
}

/** Frozen, as their `createUserMessage()` makes it. */
function notice(): Message {
  const text = 'The harness was reloaded in the middle of your turn. Go on where you were.'
  const content = Object.freeze([Object.freeze({ type: 'text', text })])
  const source = { kind: 'plugin', plugin: 'harness-hmr', form: 'notice', summary: 'harness reloaded' }
  return Object.freeze({ id: crypto.randomUUID(), role: 'user', content, source: Object.freeze(source) })
}
