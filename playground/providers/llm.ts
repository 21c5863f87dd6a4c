import { setImmediate, setTimeout } from 'node:timers/promises'
import { Service, type Context } from 'cordis'
import { readScript, type Script, type ScriptedCall } from './llm/script.ts'
import type { ToolSchema } from './tools.ts'

/** What has been said so far, oldest first. */
export type Message =
  | { role: 'user'; text: string }
  | { role: 'assistant'; text: string; calls: number }
  | { role: 'tool'; text: string }
  | { role: 'notice'; text: string }

/** One request to a model. The session is named, never looked up. */
export interface GenerateOptions {
  sessionId: string
  system: string
  messages: readonly Message[]
  tools: readonly ToolSchema[]
  /** The signal of the turn. */
  signal: AbortSignal
}

/** A piece of what the model says. */
export type Delta = { type: 'text'; text: string } | ({ type: 'call' } & ScriptedCall)

/** Options of {@link SimulatedModel}. */
export interface ModelConfig {
  /** Milliseconds per token; 0 by default. */
  latency?: number
}

declare module 'cordis' {
  interface Context {
    llm: SimulatedModel
  }
}

const OPENINGS = ['Let me see.', 'One moment.', 'I look into it.', 'Good question.']
const SLOW_LATENCY = 60

/** A streaming model without a network (`ctx.llm`): the same session, step and prompt give the same stream. */
export class SimulatedModel extends Service {
  private readonly latency: number

  constructor(ctx: Context, { latency = 0 }: ModelConfig = {}) {
    super(ctx, 'llm')
    this.latency = latency
  }

  /** Streams one step; rejects with the reason of `signal` as soon as it aborts. */
  async *generate(options: GenerateOptions): AsyncGenerator<Delta, void, void> {
    const { sessionId, messages, tools, signal } = options
    const start = messages.findLastIndex(message => message.role === 'user')
    const turn = messages.slice(start)
    const prompt = turn[0]?.text ?? ''
    const step = turn.filter(message => message.role === 'assistant').length
    const script = scriptOf(prompt, tools)
    const calls = script[step]
    const latency = /\bslow\b/.test(prompt) ? Math.max(SLOW_LATENCY, this.latency * 8) : this.latency

    for (const text of words(calls ? pick(OPENINGS, `${sessionId} ${step} ${prompt}`) : answer(prompt, turn))) {
      await pause(latency, signal)
      yield { type: 'text', text }
    }
    for (const call of calls ?? []) yield { type: 'call', ...call }
  }
}

/** A prompt that says nothing of tools and asks something gets a look-up, so that there is something to watch. */
function scriptOf(prompt: string, tools: readonly ToolSchema[]): Script {
  const script = readScript(prompt, tools)
  if (script.length > 0 || !prompt.endsWith('?') || !tools.some(tool => tool.name === 'lookup')) return script
  const topic = /(\w+)\W*$/.exec(prompt)?.[1] ?? 'it'
  return [[{ name: 'lookup', args: { topic } }]]
}

/** The answer quotes the prompt: who reads a transcript sees which prompt it belongs to. */
function answer(prompt: string, turn: readonly Message[]): string {
  const results = turn.filter(message => message.role === 'tool').map(message => message.text)
  return `About "${prompt}": ${results.length > 0 ? results.join('; ') : 'nothing to add.'}`
}

function words(text: string): string[] {
  return text.match(/\S+\s*/g) ?? []
}

function pick<T>(choices: readonly T[], seed: string): T {
  let hash = 0
  for (const char of seed) hash = (hash * 31 + char.charCodeAt(0)) >>> 0
  return choices[hash % choices.length]!
}

async function pause(ms: number, signal: AbortSignal): Promise<void> {
  try {
    await (ms > 0 ? setTimeout(ms, undefined, { signal }) : setImmediate(undefined, { signal }))
  } catch (error) {
    throw signal.reason ?? error
  }
}

export default SimulatedModel
