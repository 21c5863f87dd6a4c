import type { Context } from 'cordis'
import type { SessionEvent } from '../providers/sessions.ts'

/** Options of the console log. */
export interface ConsoleLogConfig {
  write?: (line: string) => void
}

/** Prints one line for what an agent is asked, does and answers. */
export function consoleLog(ctx: Context, { write = line => process.stdout.write(line) }: ConsoleLogConfig = {}): void {
  ctx.on('session/event', ({ sessionId, event }) => {
    const line = describe(event)
    if (line) write(`${sessionId.padEnd(4)} ${line}\n`)
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
