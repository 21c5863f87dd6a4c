import type { Context } from 'cordis'
import type { HarnessHmr, ReloadReport } from 'harness-hmr'
import type { Agent } from '../providers/agents.ts'
import type { Session, SessionEvent } from '../providers/sessions.ts'
import type { Sources } from './sources.ts'
import type { Tool, ToolExecution } from '../providers/tools.ts'

declare module 'cordis' {
  interface Context {
    selfEdit: { readonly tool: string }
    /** There while the harness runs in the dev server. */
    harnessHmr: HarnessHmr
  }
}

/**
 * Lets agents edit the source of the providers that they run on. The call returns at once, since the reload waits for the
 * very step that it is made in; the outcome reaches the agent as a notice, before its next step.
 */
export class SelfEdit {
  // Not the loop: what it resumes is heard by those who are there before it.
  static inject = ['tools', 'sources']
  private readonly ctx: Context
  private readonly sources: Sources

  constructor(ctx: Context) {
    this.ctx = ctx
    this.sources = ctx.sources
    const tool = this.tool()
    ctx.tools.register(tool)
    ctx.on('agent/step', ({ agent, signal }) => this.beforeStep(agent, signal))
    ctx.provide('selfEdit', { tool: tool.name })
  }

  private tool(): Tool {
    return {
      name: 'edit',
      description: 'Replaces a piece of text in a source file of this harness, which then reloads it.',
      parameters: {
        file: { type: 'string', description: 'path of the file' },
        find: { type: 'string', description: 'the text to replace' },
        replace: { type: 'string', description: 'the new text' }
      },
      execute: execution => this.edit(execution)
    }
  }

  private edit({ agent, args }: ToolExecution): string {
    const [file, find, replace] = [args.file, args.find, args.replace].map(String) as [string, string, string]
    const { written } = this.sources.at(file)
    const source = this.sources.read(file)
    if (!source.includes(find)) throw new Error(`file "${file}" does not contain the text to replace`)
    const hmr = this.hmr()
    // On record first: whoever drives the agent after the reload knows what it waits for.
    if (hmr) agent?.session.append('edited', { file: written })
    this.sources.write(file, source.replace(find, replace))
    const ticket = hmr?.request(written)
    if (ticket?.when === 'never') agent?.session.append('notice', { text: ticket.message, about: written })
    return ticket?.message ?? `"${file}" is written; nothing reloads it here`
  }

  /** Waits for the outcome of the agent's edits, and puts it on record. A driver that has to park is not held up. */
  private async beforeStep({ session }: Agent, signal: AbortSignal): Promise<void> {
    for (const { time, data } of openEdits(session)) {
      const report = await this.outcome(data.file, time, signal)
      session.append('notice', { text: describe(report, data.file), about: data.file })
    }
  }

  private outcome(file: string, since: number, signal: AbortSignal): Promise<ReloadReport> {
    // Where other files were broken before, one that is tried together with them is tried once more alone.
    const concerns = ({ cause, time, retried }: ReloadReport) => !retried && time >= since && cause.includes(file)
    const known = this.hmr()?.reports.find(concerns)
    if (known) return Promise.resolve(known)
    return new Promise((resolve, reject) => {
      const stop = () => {
        off()
        signal.removeEventListener('abort', abort)
      }
      const abort = () => {
        stop()
        reject(signal.reason)
      }
      const off = this.ctx.root.on('harness-hmr/report', report => {
        if (!concerns(report)) return
        stop()
        resolve(report)
      })
      signal.addEventListener('abort', abort)
    })
  }

  private hmr(): HarnessHmr | undefined {
    return this.ctx.get('harnessHmr')
  }
}

function openEdits({ events }: Session): SessionEvent<'edited'>[] {
  const open = new Map<string, SessionEvent<'edited'>>()
  for (const event of events) {
    if (event.type === 'edited') open.set(event.data.file, event)
    else if (event.type === 'notice') open.delete(event.data.about)
  }
  return [...open.values()]
}

function describe({ outcome, error, reason, providers }: ReloadReport, file: string): string {
  const names = providers.map(({ name, to }) => `${name} ${to}`).join(', ')
  if (outcome === 'ignored' || outcome === 'mended') return `${outcome}: ${reason?.message ?? ''}`
  return error ? `${outcome}: ${error.message} (${names} goes on)` : `${outcome}: ${names || file} runs the new code`
}

export default SelfEdit
