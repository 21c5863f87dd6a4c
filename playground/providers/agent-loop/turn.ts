import { textOf } from '../../listeners.ts'
import type { Loop } from './loop.ts'
import { runStep } from './step.ts'
import { runToolCall } from './tool-call.ts'

const MAX_STEPS = 32

/** Goes on with the open turn, or opens one for the first prompt, until it ends or the driver parks. */
export async function runTurn(loop: Loop): Promise<void> {
  const agent = loop.agents.requireInitiator()
  const { session } = agent
  const driver = loop.driverOf(agent)
  const { progress } = driver
  if (!progress.turn) session.append('turn', { promptId: progress.queue[0]!.promptId })
  const turn = progress.turn!
  const signal = driver.beginTurn()
  while (progress.turn === turn && !driver.parking && !signal.aborted) {
    if (turn.calls.length > 0) await runToolCall(loop)
    else if (turn.steps < MAX_STEPS) {
      if ((await isReady(loop)) && progress.turn === turn) await runStep(loop)
    } else session.append('failed', { promptId: turn.promptId, error: `no answer after ${MAX_STEPS} steps` })
  }
  if (progress.turn !== turn) await session.flush()
}

/**
 * Waits for what comes before a step. A failure may be of a moment, so it is asked for once more; the second one ends the turn.
 * It only waits: a driver that is to park is not held up.
 */
async function isReady(loop: Loop): Promise<boolean> {
  const agent = loop.agents.requireInitiator()
  const driver = loop.driverOf(agent)
  const { progress, signal } = driver
  const { promptId } = progress.turn!
  driver.yielding = true
  try {
    await loop.beforeStep(agent, signal).catch(async (error: unknown) => {
      if (signal.aborted || driver.parking) throw error
      await loop.beforeStep(agent, signal)
    })
    return !driver.parking
  } catch (error) {
    if (!signal.aborted && !driver.parking) agent.session.append('failed', { promptId, error: textOf(error) })
    return false
  } finally {
    driver.yielding = false
  }
}
