// A simulated model: every user message makes three tool calls, then a sentence.
import type { Context } from '@deepseek-ai/cordis'
import { CallId, LlmAdapter, type GenerateOptions, type StreamChunk } from '@deepseek-ai/dsh-llm'
import { setTimeout as delay } from 'node:timers/promises'

export const name = 'simulated-llm'
export const inject = ['llm']
const STYLE = 'v2'

class SimulatedAdapter extends LlmAdapter {
  async *stream({ messages, signal }: GenerateOptions): AsyncIterable<StreamChunk> {
    let calls = 0
    for (const message of messages.toReversed()) {
      if (message.source.kind === 'tool') calls++
      else if (message.role === 'user') break
    }
    await delay(120, undefined, { signal })
    if (calls < 3) {
      const id = CallId(`call-${messages.length}-${Date.now()}`)
      const args = JSON.stringify({ a: messages.length, b: calls })
      yield { type: 'block-start', index: 0, blockType: 'tool-call' }
      yield { type: 'tool-call-delta', index: 0, id, name: 'add', argumentsDelta: args }
      yield { type: 'block-end', index: 0, block: { type: 'tool-call', id, name: 'add', arguments: args } }
      yield { type: 'usage', usage: { inputTokens: 10, outputTokens: 5 } }
      yield { type: 'finish', reason: { kind: 'tool-calls' } }
      return
    }
    const text = `done (${STYLE})`
    yield { type: 'block-start', index: 0, blockType: 'text' }
    for (const char of text) {
      await delay(15, undefined, { signal })
      yield { type: 'text-delta', index: 0, text: char }
    }
    yield { type: 'block-end', index: 0, block: { type: 'text', text } }
    yield { type: 'usage', usage: { inputTokens: 10, outputTokens: text.length } }
    yield { type: 'finish', reason: { kind: 'stop' } }
  }
}

export function apply(ctx: Context) {
  ctx.llm.registerAdapter(['simulated'], new SimulatedAdapter())
}
