import type { Agent, ParentRequest } from '../agents.ts'
import type { SessionStore } from '../sessions.ts'
import { parentOf } from './agent.ts'
import { isOpenCall } from './progress.ts'

/** Whether the call that asks for a child still waits for it. */
export function isWanted(sessions: SessionStore, { agentId, callId }: ParentRequest): boolean {
  return isOpenCall(sessions.read(agentId), callId)
}

/** Ends the children whose call has ended with the newest event of their parent. */
export async function endChildrenOf(parentId: string, agents: Iterable<Agent>, sessions: SessionStore): Promise<void> {
  const over = [...agents].filter(({ parent }) => parent?.agentId === parentId && !isWanted(sessions, parent))
  await Promise.all(over.map(agent => agent.end()))
}

/** Whether the agent of a session has ended. A child whose call ended while nobody drove it is put on record as ended. */
export function isRetired(sessions: SessionStore, id: string): boolean {
  const events = sessions.read(id)
  if (events.at(-1)?.type === 'ended') return true
  const parent = parentOf(events)
  if (!parent || isWanted(sessions, parent)) return false
  const session = sessions.open(id)
  session.append('ended', {})
  session.close()
  return true
}
