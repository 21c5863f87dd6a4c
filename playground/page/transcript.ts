/** From the events of a session, and the reloads meanwhile, to what is shown of it. Pure. */
import type { AuditReport, ReloadReport } from 'harness-hmr'
import type { SessionEvent, ToolCallRecord } from '../providers/sessions.ts'
import type { Conversation } from './model.ts'

/** A tool call and what became of it. */
export interface Call extends ToolCallRecord {
  state: 'waiting' | 'running' | 'done' | 'failed' | 'interrupted'
  result: string
}

/** One line of a conversation. `rev` changes with what it shows. */
export type Entry = { key: string; rev: number } & (
  | { kind: 'prompt' | 'queued'; text: string; from: string | undefined }
  | { kind: 'step'; text: string; calls: Call[] }
  | { kind: 'saying'; text: string }
  | { kind: 'answer' | 'notice' | 'failed'; text: string }
  | { kind: 'cancelled' | 'ended' }
  | { kind: 'reload'; report: ReloadReport; audits: AuditReport[] }
)

/** The lines of a conversation, oldest first, with the reloads where they happened. */
export function transcript(
  { events, said }: Pick<Conversation, 'events' | 'said'>,
  reports: readonly ReloadReport[],
  audits: readonly AuditReport[]
): Entry[] {
  const entries: Entry[] = []
  const writer = new Writer(entries)
  const since = events[0]?.time ?? Infinity
  const markers = reports.filter(({ time }) => time >= since)
  for (const event of events) {
    while (markers[0] && markers[0].time <= event.time) entries.push(marker(markers.shift()!, audits))
    writer.take(event)
  }
  for (const report of markers) entries.push(marker(report, audits))
  if (said) entries.push({ kind: 'saying', key: 'saying', rev: said.text.length, text: said.text })
  return [...entries, ...writer.queued()]
}

/** Whether a turn is open: the last one has no end. */
export function isBusy(events: readonly SessionEvent[]): boolean {
  const last = events.findLast(({ type }) => ['turn', 'answer', 'failed', 'cancelled', 'ended'].includes(type))
  return last?.type === 'turn'
}

/** Puts the events of one session into entries. */
class Writer {
  private readonly entries: Entry[]
  private readonly prompts = new Map<string, Entry & { kind: 'prompt' | 'queued' }>()
  private readonly calls = new Map<string, { call: Call; step: Entry }>()

  constructor(entries: Entry[]) {
    this.entries = entries
  }

  take({ seq, type, data }: SessionEvent): void {
    const base = { key: `${seq}`, rev: 0 }
    switch (type) {
      case 'created':
      case 'edited':
        return
      case 'prompt':
        this.prompts.set(data.promptId, { ...base, kind: 'queued', text: data.text, from: data.from?.agentId })
        return
      case 'turn':
        // A prompt stands where it was taken up.
        this.entries.push({ ...this.takeUp(data.promptId, `turn ${seq}`), kind: 'prompt' })
        return
      case 'step':
        this.step(base, data)
        return
      case 'call':
      case 'result':
        this.progress(data)
        return
      case 'notice':
      case 'answer':
        this.entries.push({ ...base, kind: type, text: data.text })
        return
      case 'failed':
        this.entries.push({ ...base, kind: 'failed', text: data.error })
        return
      case 'cancelled':
        this.cancelled(base, data.promptId)
        return
      case 'ended':
        this.entries.push({ ...base, kind: 'ended' })
        return
      default:
        return type satisfies never
    }
  }

  /** The prompts that nobody has taken up. */
  queued(): Entry[] {
    return [...this.prompts.values()]
  }

  private takeUp(promptId: string, key: string): Entry & { kind: 'prompt' | 'queued' } {
    const known = this.prompts.get(promptId)
    this.prompts.delete(promptId)
    return known ?? { kind: 'prompt', key, rev: 0, text: '…', from: undefined }
  }

  private step(base: { key: string; rev: number }, { text, calls }: { text: string; calls: ToolCallRecord[] }): void {
    const step: Entry & { kind: 'step' } = { ...base, kind: 'step', text, calls: [] }
    for (const record of calls) {
      const call: Call = { ...record, state: 'waiting', result: '' }
      step.calls.push(call)
      this.calls.set(record.callId, { call, step })
    }
    this.entries.push(step)
  }

  private progress(data: { callId: string; output?: string; error?: string }): void {
    const known = this.calls.get(data.callId)
    if (!known) return
    const { call, step } = known
    step.rev++
    if (data.output !== undefined) Object.assign(call, { state: 'done', result: data.output })
    else if (data.error !== undefined) Object.assign(call, { state: failure(data.error), result: data.error })
    else call.state = 'running'
  }

  private cancelled(base: { key: string; rev: number }, promptId: string): void {
    // Before it was taken up, it has no place yet.
    const waiting = this.prompts.get(promptId)
    if (waiting) this.entries.push({ ...this.takeUp(promptId, base.key), kind: 'prompt' })
    this.entries.push({ ...base, key: `${base.key} cancelled`, kind: 'cancelled' })
  }
}

function failure(error: string): Call['state'] {
  return error.includes('was interrupted') ? 'interrupted' : 'failed'
}

function marker(report: ReloadReport, audits: readonly AuditReport[]): Entry {
  const own = audits.filter(({ reload }) => reload === report.id)
  const rev = own.reduce(
    (sum, { outcome, retainers }) => sum * 31 + outcome.length + (retainers?.length ?? 0) * 7,
    own.length
  )
  return { kind: 'reload', key: `reload ${report.id}`, rev, report, audits: own }
}
