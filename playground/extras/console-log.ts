import type { Context } from 'cordis'
import type { SessionEvent } from '../providers/sessions.ts'

/** Options of the console log. */
export interface ConsoleLogConfig {
  write?: (line: string) => void
}

/** Control characters, and those that turn the direction of what follows. */
const UNPRINTABLE = /[\p{Cc}\u2028\u2029\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]+/gu

/** Prints one line for what an agent is asked, does and answers. */
export function consoleLog(ctx: Context, { write = line => process.stdout.write(line) }: ConsoleLogConfig = {}): void {
  ctx.on('session/event', ({ sessionId, event }) => {
    const line = describe(event)
    // What agents say must not steer a terminal.
    if (line) write(`${sessionId.padEnd(4)} ${line}`.replaceAll(UNPRINTABLE, ' ').concat('\n'))
  })
}

function describe({ type, data }: SessionEvent): string | undefined {
  switch (type) {
    case 'prompt':
      return `? ${data.text}`
    case 'step':
      return `… ${data.calls.map(call => `${call.name} ${Object.values(call.args).join(' ')}`).join(', ')}`
    case 'answer':
      return `= ${data.text}`
    case 'failed':
      return `! ${data.error}`
    case 'cancelled':
      return `! ${data.promptId} cancelled`
    case 'result':
      return 'error' in data ? `! ${data.error}` : undefined
    case 'notice':
      return `* ${data.text}`
    case 'created':
    case 'edited':
    case 'turn':
    case 'call':
    case 'ended':
      return undefined
    default:
      return type satisfies never
  }
}

export default consoleLog
