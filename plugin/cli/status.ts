/** `harness-hmr status` and `last`: what a script, or a coding agent, wants to know after a save. */
import type { Snapshot } from '../page/server/protocol.ts'
import type { AuditReport, ReloadReport, ReportError } from '../report/report.ts'
import { connect } from './server.ts'

/** What goes on, and whether it is what was meant. */
export interface StatusReport {
  type: 'status'
  /** Vite's root; the paths are absolute. */
  root: string
  /** Whether the newest content of every file runs. */
  live: boolean
  state: Snapshot['harness']['state'] | 'reloading'
  /** Why the harness could not boot. */
  error?: ReportError
  /** Files that wait for a reload, and files whose newest content could not be reloaded. */
  pending: string[]
  dirty: string[]
  /** The last reload; `null` before there was one. */
  last: ReloadReport | null
  /** Generations that were replaced and are not collected, with what keeps them. */
  retained: AuditReport[]
  /** Generations whose drain was given up and goes on. */
  abandoned: string[]
}

/**
 * Asks a running dev server.
 * @param wait - has it look at its files first, and waits until what has changed was reloaded.
 * @throws when no dev server with the plugin answers at `url`.
 */
export async function askStatus(
  url: string,
  { signal, wait }: { signal: AbortSignal; wait: boolean }
): Promise<StatusReport> {
  const server = await connect(url, { signal })
  try {
    if (!wait) return statusOf(server.snapshot)
    await server.ask({ do: 'settle' })
    // What it knows by now.
    const settled = await connect(url, { signal })
    settled.close()
    return statusOf(settled.snapshot)
  } finally {
    server.close()
  }
}

function statusOf({ root, harness, progress, files, reloads, audits, abandoned }: Snapshot): StatusReport {
  const state = progress ? 'reloading' : harness.state
  return {
    type: 'status',
    root,
    live: state === 'running' && files.pending.length + files.dirty.length === 0,
    state,
    error: harness.failed ?? undefined,
    pending: files.pending,
    dirty: files.dirty,
    last: reloads.at(-1) ?? null,
    retained: audits.filter(({ outcome }) => outcome === 'retained'),
    abandoned
  }
}
