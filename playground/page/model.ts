/** What the page knows, and what each message changes. No DOM and no network: the harness' messages come in, a model comes out. */
import type { AuditReport, ReloadReport } from 'harness-hmr'
import type { ParentRequest } from '../providers/agents.ts'
import type { AgentView, EditView, FromHarness, SessionView, Snapshot, SourcesView } from '../extras/page/protocol.ts'
import type { SessionEvent } from '../providers/sessions.ts'

/** How many events of a conversation are kept when it grows beyond {@link MAX_EVENTS}. */
const KEPT_EVENTS = 300
const MAX_EVENTS = 400
/** How many conversations of agents that have ended are kept. */
const MAX_ENDED = 40

/** One agent's session, as far as the page has it. */
export interface Conversation {
  readonly id: string
  parent: ParentRequest | undefined
  /** Whether the agent is there; it is not for a moment while what it runs on is replaced. */
  live: boolean
  parked: boolean
  events: SessionEvent[]
  /** What it says right now; nothing of it is on record. */
  said: { promptId: string; step: number; text: string } | undefined
}

/** `lost` is a connection that was there; `waiting` is one to a server whose harness does not run. */
export type Link = 'connecting' | 'waiting' | 'open' | 'lost'

/** All that the page knows. */
export interface Model extends SourcesView {
  link: Link
  readonly conversations: Map<string, Conversation>
  reports: ReloadReport[]
  audits: AuditReport[]
  edits: EditView[]
  /** The services that are being replaced. */
  reloading: readonly string[] | undefined
}

/** Sessions that have to be read from the harness: a piece of them is missing. */
export type Missing = string | undefined

/** A page that has heard nothing yet. */
export function emptyModel(): Model {
  return {
    link: 'connecting',
    conversations: new Map(),
    reports: [],
    audits: [],
    edits: [],
    sources: [],
    providers: [],
    active: [],
    cameOf: {},
    reloading: undefined
  }
}

/** Everything again; what an agent says right now goes on if it still says it. */
export function takeSnapshot(model: Model, snapshot: Snapshot): void {
  const { agents, sessions, reports, audits, edits, sources, providers, active, cameOf } = snapshot
  Object.assign(model, { link: 'open', audits: [...audits], edits, sources, providers, active, cameOf })
  model.reloading = undefined
  model.reports = reports.filter(isShown)
  for (const conversation of model.conversations.values()) conversation.live = false
  for (const agent of agents) Object.assign(conversationOf(model, agent), { live: true, parked: false })
  for (const session of sessions) takeSession(model, session)
}

/** A session as it was read. */
export function takeSession(model: Model, { id, events }: SessionView): void {
  const conversation = conversationOf(model, { id, parent: parentIn(events) })
  conversation.events = events
  const { said } = conversation
  if (said && !isOpen(events, said.promptId, said.step)) conversation.said = undefined
}

/** An event of a session; says which session has a gap now. */
export function takeEvent(model: Model, { sessionId, event }: FromHarness['event']): Missing {
  if (event.seq === 0) {
    // The agent is about to be announced.
    Object.assign(conversationOf(model, { id: sessionId, parent: parentIn([event]) }), { events: [event], live: true })
    return undefined
  }
  const conversation = model.conversations.get(sessionId)
  if (!conversation) return undefined
  const next = (conversation.events.at(-1)?.seq ?? -1) + 1
  if (event.seq < next) return undefined
  if (event.seq > next) return sessionId
  conversation.events.push(event)
  if (conversation.events.length > MAX_EVENTS) conversation.events = conversation.events.slice(-KEPT_EVENTS)
  if (['step', 'answer', 'failed', 'cancelled', 'ended'].includes(event.type)) conversation.said = undefined
  return undefined
}

/** A piece of what an agent says. */
export function takeDelta(model: Model, { agent, promptId, step, text }: FromHarness['delta']): void {
  const conversation = model.conversations.get(agent)
  if (!conversation) return
  const { said } = conversation
  const goesOn = said?.promptId === promptId && said.step === step
  conversation.said = { promptId, step, text: goesOn ? said.text + text : text }
}

/** An agent came, went, drives or is parked; says which session the page does not have yet. */
export function takeAgent(model: Model, { is, ...agent }: FromHarness['agent']): Missing {
  const conversation = conversationOf(model, agent)
  if (is === 'created' || is === 'disposed') conversation.live = is === 'created'
  else conversation.parked = is === 'parked'
  // A step that was cut off is run again.
  if (is === 'parked' || is === 'disposed') conversation.said = undefined
  if (is === 'disposed') forgetEnded(model)
  return is === 'created' && conversation.events.length === 0 ? agent.id : undefined
}

/** A reload has ended. */
export function takeReport(model: Model, { report, ...view }: FromHarness['report']): void {
  Object.assign(model, { ...view, reloading: undefined })
  if (isShown(report)) model.reports = [...model.reports, report].slice(-100)
}

/** What became of a generation; of two audits of it the newer counts. */
export function takeAudit(model: Model, audit: AuditReport): void {
  const others = model.audits.filter(other => other.module !== audit.module || other.generation !== audit.generation)
  model.audits = [...others, audit].slice(-100)
}

/** Whether the agent has ended for good. */
export function hasEnded({ events }: Conversation): boolean {
  return events.at(-1)?.type === 'ended'
}

/** Nobody wants to read of a save that nothing came of. */
function isShown({ outcome }: ReloadReport): boolean {
  return outcome !== 'ignored'
}

function conversationOf(model: Model, { id, parent }: AgentView): Conversation {
  const known = model.conversations.get(id)
  if (known) {
    known.parent ??= parent
    return known
  }
  const conversation: Conversation = { id, parent, live: false, parked: false, events: [], said: undefined }
  model.conversations.set(id, conversation)
  return conversation
}

function parentIn([first]: SessionEvent[]): ParentRequest | undefined {
  return first?.type === 'created' ? first.data.parent : undefined
}

/** Whether a step of a prompt is not on record yet. */
function isOpen(events: SessionEvent[], promptId: string, step: number): boolean {
  const about = events.filter(({ data }) => 'promptId' in data && data.promptId === promptId)
  const isOver = about.some(({ type }) => type === 'answer' || type === 'failed' || type === 'cancelled')
  return !isOver && about.filter(({ type }) => type === 'step').length <= step
}

function forgetEnded({ conversations }: Model): void {
  const ended = [...conversations.values()].filter(conversation => hasEnded(conversation))
  for (const { id } of ended.slice(0, Math.max(0, ended.length - MAX_ENDED))) conversations.delete(id)
}

/** Does something that may fail, and says so. */
export type Act = (work: () => Promise<unknown>) => void
