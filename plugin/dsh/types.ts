/** `@deepseek-ai/dsh-agent` and its loop, as far as they are used here: their packages are the user's. */

/** A message to an agent. */
export interface Message {
  id: string
  source: { kind: string }
}

/** A live agent. */
export interface Agent {
  readonly id: string
  readonly options: object
  readonly status: 'idle' | 'running'
  readonly session: { readonly events: readonly unknown[]; readonly header: { readonly cwd?: string } }
  readonly inbox: { readonly nextTurn: readonly Message[]; readonly nextStep: readonly Message[] }
  whenIdle(): Promise<void>
  followup(message: Message): void
  send(message: Message, target: 'next-step' | 'next-turn', wakeup: boolean): void
}

/** `ctx.agents`. */
export interface Agents {
  list(): Agent[]
  /** Those that no other agent has created. */
  roots(): Agent[]
  get(id: string): Agent | undefined
  create(options: object): Promise<unknown>
  resume(options: object): Promise<unknown>
}

/** `ctx.agentLoop`. */
export interface AgentLoop {
  config: { agents: readonly { id: string; sessionId?: string; resumeSessionId?: string }[] }
}

/** A proposed step: `messages` have been taken out of the inbox, and are in no transcript yet. */
export interface PreStep {
  agent: Agent
  messages: Message[]
  step: number
  signal: AbortSignal
}

/** The context of a harness, as far as it is used here. */
export interface Context {
  get(service: string): unknown
  on(event: string, listener: (...args: never[]) => unknown, options?: object): unknown
}
