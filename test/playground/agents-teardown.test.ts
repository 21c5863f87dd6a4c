import { runInNewContext } from 'node:vm'
import { Context, type Fiber } from 'cordis'
import { describe, expect, onTestFinished, test } from 'vitest'
import { AgentRegistry, type Agent } from '../../playground/providers/agents.ts'
import { deferred, promptly, turn } from '../promptly.ts'

const agentOf = (id: string) => ({ id, session: { id } }) as unknown as Agent
const [ada, bo] = [agentOf('ada'), agentOf('bo')]
const gone = 'agent initiator scope is disposed'

async function registry() {
  const root = new Context()
  const fiber = await root.plugin(AgentRegistry)
  onTestFinished(() => void root.fiber.dispose())
  return { root, fiber: fiber.ctx.fiber, agents: root.agents }
}

describe('teardown', () => {
  test('refuses boundaries, removes the service while dependents drain, waits for boundaries, then disables', async () => {
    const { root, agents, fiber } = await registry()
    const seq: string[] = []
    const [dependent, boundary] = [deferred(), deferred()]
    await root.plugin({
      inject: ['agents'],
      apply: ctx =>
        void ctx.effect(() => async () => {
          expect(() => agents.withInitiator(bo, () => {})).toThrow(gone)
          seq.push('dependent stops')
          await dependent.promise
          seq.push('dependent stopped')
        })
    })
    const running = agents.withInitiator(ada, async () => {
      await boundary.promise
      seq.push(`boundary reads ${agents.requireInitiator().id}`)
    })
    const disposed = fiber.dispose().then(() => seq.push('disposed'))
    await turn()
    expect(root.get('agents')).toBeUndefined()
    expect(() => agents.withoutInitiator(() => {})).toThrow(gone)
    boundary.resolve()
    await running
    await turn()
    expect(seq).toEqual(['dependent stops', 'boundary reads ada'])
    expect(agents.currentInitiator()).toBeUndefined()
    dependent.resolve()
    await promptly(disposed, 'disposal')
    expect(seq).toEqual(['dependent stops', 'boundary reads ada', 'dependent stopped', 'disposed'])
  })

  test('makes every initiator method of a kept reference throw', async () => {
    const { agents, fiber } = await registry()
    await fiber.dispose()
    expect(() => agents.currentInitiator()).toThrow(gone)
    expect(() => agents.requireInitiator()).toThrow(gone)
    expect(() => agents.withInitiator(ada, () => {})).toThrow(gone)
    expect(() => agents.withoutInitiator(() => {})).toThrow(gone)
  })

  test('waits for cleared boundaries, and for cross-realm Promises', async () => {
    const { agents, fiber } = await registry()
    const gate = deferred()
    const { promise, resolve } = runInNewContext(
      'let resolve; ({ promise: new Promise(r => (resolve = r)), resolve: () => resolve() })'
    )
    const seq: string[] = []
    void agents.withoutInitiator(() => gate.promise)
    void agents.withInitiator(ada, () => promise)
    const disposed = fiber.dispose().then(() => seq.push('disposed'))
    await turn()
    seq.push('cleared')
    gate.resolve()
    await turn()
    seq.push('foreign')
    resolve()
    await promptly(disposed, 'disposal')
    expect(seq).toEqual(['cleared', 'foreign', 'disposed'])
  })

  test('does not wait for work that the operation did not return, which reads its agent until the end', async () => {
    const { agents, fiber } = await registry()
    const gate = deferred()
    let detached!: Promise<unknown>
    agents.withInitiator(ada, () => {
      detached = gate.promise.then(() => agents.currentInitiator())
    })
    await promptly(fiber.dispose(), 'disposal')
    gate.resolve()
    await expect(detached).rejects.toThrow(gone)
  })
})

describe('the disposal of the root, which starts sibling teardowns at the same time', () => {
  test('waits for a boundary of a provider that is not injected, by counting', async () => {
    const root = new Context()
    const seq: string[] = []
    const gate = deferred()
    let agents!: AgentRegistry
    let running!: Promise<unknown>
    await root.plugin({
      name: 'sibling',
      apply(ctx) {
        ctx.effect(() => () => void seq.push('sibling ends'))
        running = Promise.resolve().then(async () => {
          await turn()
          agents = ctx.get('agents')!
          return agents.withInitiator(ada, async () => {
            await gate.promise
            seq.push(`boundary reads ${agents.requireInitiator().id}`)
          })
        })
      }
    })
    await root.plugin(AgentRegistry)
    await turn()
    const disposed = root.fiber.dispose().then(() => seq.push('disposed'))
    await turn()
    expect(() => agents.withInitiator(bo, () => {})).toThrow(gone)
    gate.resolve()
    await promptly(Promise.all([running, disposed]), 'disposal')
    expect(seq).toEqual(['sibling ends', 'boundary reads ada', 'disposed'])
    expect(() => agents.currentInitiator()).toThrow(gone)
  })
})

describe('teardown from inside a boundary', () => {
  /** The registry three fibers below the root, so that there are ancestors to dispose. */
  async function nested() {
    const root = new Context()
    const fibers: Record<string, Fiber> = { root: root.fiber }
    fibers.grandparent = (await root.plugin({ name: 'grandparent', apply() {} })).ctx.fiber
    fibers.parent = (await fibers.grandparent.ctx.plugin({ name: 'parent', apply() {} })).ctx.fiber
    fibers.own = (await fibers.parent.ctx.plugin(AgentRegistry)).ctx.fiber
    return { fibers, agents: root.agents }
  }

  for (const which of ['own', 'parent', 'grandparent', 'root']) {
    test(`refuses boundaries from the moment the ${which} fiber starts to unload`, async () => {
      const { fibers, agents } = await nested()
      const disposed = fibers[which]!.dispose()
      expect(() => agents.withInitiator(ada, () => {})).toThrow(gone)
      expect(agents.currentInitiator()).toBeUndefined()
      await promptly(disposed, 'disposal')
    })

    test(`does not wait for itself when it disposes the ${which} fiber, after awaits and nested`, async () => {
      const { fibers, agents } = await nested()
      const other = deferred()
      const seq: string[] = []
      void agents.withInitiator(bo, () => other.promise)
      const running = agents.withInitiator(ada, async () => {
        await turn()
        await agents.withoutInitiator(() =>
          agents.withInitiator(ada, async () => {
            await turn()
            await fibers[which]!.dispose()
            seq.push('disposed')
          })
        )
      })
      await turn()
      await turn()
      await turn()
      expect(() => agents.withoutInitiator(() => {})).toThrow(gone)
      expect(agents.currentInitiator()).toBeUndefined()
      seq.push('unrelated boundary settles')
      other.resolve()
      await promptly(running, 'the boundary that disposed')
      expect(seq).toEqual(['unrelated boundary settles', 'disposed'])
      expect(() => agents.currentInitiator()).toThrow(gone)
    })
  }

  test('does not wait for a boundary that disposes the root while somebody else has begun to dispose the registry', async () => {
    const { fibers, agents } = await nested()
    const begun = deferred()
    const running = agents.withInitiator(ada, async () => {
      await begun.promise
      await fibers.root!.dispose()
    })
    const disposed = fibers.own!.dispose()
    await turn()
    begun.resolve()
    await promptly(Promise.all([running, disposed]), 'both disposals')
  })
})
