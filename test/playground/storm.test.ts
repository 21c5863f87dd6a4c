import { expect, test } from 'vitest'
import { promptly, turn } from '../promptly.ts'
import { boot, expectSound, providerNames, type Harness } from './fixture.ts'

/** Mulberry32: the same seed gives the same storm. */
function random(seed: number): (below: number) => number {
  return below => {
    seed = (seed + 0x6d2b79f5) | 0
    let t = Math.imul(seed ^ (seed >>> 15), 1 | seed)
    t = (t + Math.imul(t ^ (t >>> 7), 61 | t)) ^ t
    return ((t ^ (t >>> 14)) >>> 0) % below
  }
}

const TEXTS = [
  'hello',
  'use add 1 2 then wait 3',
  'use note x and add 4 5',
  'spawn: use wait 2 then add 1 1',
  'use wait 8',
  'spawn: spawn: use lookup owls'
]
const ids = ['ada', 'bo', 'cy', 'di', 'ed']

async function act(harness: Harness, pick: (below: number) => number): Promise<unknown> {
  const agent = harness.root.get('agents')?.get(ids[pick(ids.length)]!)
  switch (pick(6)) {
    case 0:
      return harness.reload(providerNames[pick(providerNames.length)]!, { announced: pick(3) > 0, grace: pick(2) * 20 })
    case 1:
      return agent?.cancel()
    case 2:
      return turn()
    default:
      return agent?.prompt(TEXTS[pick(TEXTS.length)]!)
  }
}

for (const seed of Array.from({ length: 4 }, (_, index) => index + 1)) {
  test(`prompts, children, cancels and reloads in any order leave every session sound (seed ${seed})`, async () => {
    const harness = await boot({ llm: { latency: 1 } })
    const pick = random(seed)
    harness.root.on('agent/delta', ({ agent }) =>
      expect(harness.root.get('agents', false)?.requireInitiator() ?? agent).toBe(agent)
    )
    for (const id of ids) await harness.root.agents.create({ id })
    for (let i = 0; i < 60; i++) await act(harness, pick)
    for (const id of harness.root.sessions.ids()) {
      for (const event of harness.record(id)) {
        if (event.type !== 'prompt') continue
        const agent = harness.root.agents.get(id)
        if (agent)
          await promptly(
            agent.answer(event.data.promptId).catch(() => {}),
            `an end of ${event.data.promptId} of ${id}`
          )
      }
    }
    for (const id of ids) {
      await promptly(harness.root.agents.get(id)!.prompt('last').answer(), 'the last answer')
      expectSound(harness.record(id))
    }
    // Every child has answered, or was given up with its parent's turn.
    await turn()
    expect(
      harness.root.agents
        .list()
        .map(agent => agent.id)
        .toSorted()
    ).toEqual(ids)
    expect(harness.problems).toEqual([])
  })
}
