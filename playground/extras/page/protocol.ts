/** What the page and the harness tell each other, over Vite's WebSocket. Types only: the page shares no code with a provider. */
import type { AuditReport, ReloadReport, RunningProvider } from 'harness-hmr'
import type { ParentRequest } from '../../providers/agents.ts'
import type { SessionEvent } from '../../providers/sessions.ts'
import type { Source } from '../sources.ts'

/** One agent, as it stands. */
export interface AgentView {
  id: string
  parent: ParentRequest | undefined
}

/** The newest events of a session. */
export interface SessionView {
  id: string
  events: SessionEvent[]
}

/** An edit that is ready to be made. */
export interface EditView {
  id: string
  title: string
  /** What it changes and what is to be seen, in a sentence. */
  says: string
  /** The file that it changes; an agent changes it itself when there is a prompt and no file. */
  path?: string
  /** A prompt that shows the difference. */
  ask?: string
}

/** The sources and what runs of them. */
export interface SourcesView {
  sources: Source[]
  providers: readonly RunningProvider[]
  /** The ids of the ready-made edits that are in place. */
  active: string[]
  /** By the id of an edit, that of the report which says what came of making it, or of undoing it. */
  cameOf: Record<string, number>
}

/** All that a page shows first. */
export interface Snapshot extends SourcesView {
  agents: AgentView[]
  sessions: SessionView[]
  reports: readonly ReloadReport[]
  audits: readonly AuditReport[]
  edits: EditView[]
}

/** What the harness sends, by event; the events' names begin with `playground:`. */
export interface FromHarness {
  /** It is there, or there again: a page answers with `open`. */
  here: undefined
  snapshot: Snapshot
  event: { sessionId: string; event: SessionEvent }
  /** A piece of what an agent says; it is on record only when its step has ended. */
  delta: { agent: string; promptId: string; step: number; text: string }
  agent: AgentView & { is: 'created' | 'disposed' | 'driving' | 'parked' }
  reloading: { services: string[] }
  report: SourcesView & { report: ReloadReport }
  audit: AuditReport
  answer: Answer
}

/** What became of a request. */
export type Answer = { id: number; result: unknown } | { id: number; error: string }

/** What a page asks for, and what it gets. */
export interface Requests {
  prompt: [{ agent: string; text: string }, void]
  cancel: [{ agent: string }, boolean]
  /** Makes a ready-made edit, in the scratch copy. */
  edit: [{ edit: string }, void]
  /** Goes back to the source file. */
  undo: [{ path: string }, void]
  read: [{ path: string }, { text: string; original: string }]
  session: [{ session: string }, SessionView]
}
