import type { OpenCall } from './progress.ts'
import type { Loop } from './loop.ts'

/** None when the call was cut off: whoever goes on with the turn makes it again, or says that it was interrupted. */
type Outcome = { output: string } | { error: string } | undefined

/**
 * Makes the next open tool call and puts its result on record. A call that had begun under an earlier driver is made
 * again only if its tool is idempotent: nobody knows whether the first one took effect.
 */
export async function runToolCall(loop: Loop): Promise<void> {
  const agent = loop.agents.requireInitiator()
  const { session } = agent
  const driver = loop.driverOf(agent)
  const { progress, signal } = driver
  const turn = progress.turn!
  const call = turn.calls[0]!
  const { callId } = call
  const tool = loop.tools.get(call.name, agent)
  if (call.started && !tool?.idempotent) return session.append('result', { callId, error: interrupted(call) })
  const begin = () => {
    if (!call.started) session.append('call', { callId })
    driver.yielding = tool?.yields === true
  }
  // Until it begins it waits for approval, which can be asked for again.
  driver.yielding = true
  const outcome = await execute(loop, call, begin)
  driver.yielding = false
  if (progress.turn !== turn || !outcome) return
  if ('error' in outcome && signal.aborted && (tool?.idempotent || !call.started)) return
  session.append('result', { callId, ...outcome })
}

async function execute(loop: Loop, call: OpenCall, begin: () => void): Promise<Outcome> {
  const agent = loop.agents.requireInitiator()
  const { cwd } = agent
  const { signal } = loop.driverOf(agent)
  const { callId, name, args } = call
  try {
    return { output: await loop.tools.execute({ agent, callId, name, args, cwd, signal }, begin) }
  } catch (error) {
    if (signal.aborted && (error === signal.reason || (error as Error)?.name === 'AbortError')) return undefined
    return { error: error instanceof Error ? error.message : String(error) }
  }
}

function interrupted({ name }: OpenCall): string {
  return `tool "${name}" was interrupted, it may or may not have taken effect`
}
