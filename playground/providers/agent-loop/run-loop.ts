import type { Loop } from './loop.ts'
import { runTurn } from './turn.ts'

/** Answers the prompts of the initiating agent in order, until there is none or its driver parks. */
export async function runLoop(loop: Loop): Promise<void> {
  const driver = loop.driverOf(loop.agents.requireInitiator())
  while (!driver.parking && driver.progress.queue.length > 0) await runTurn(loop)
}
