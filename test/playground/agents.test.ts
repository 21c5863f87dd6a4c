import { runInNewContext } from 'node:vm'
import { Context } from 'cordis'
import { describe, expect, onTestFinished, test } from 'vitest'
import { AgentRegistry, type Agent } from '../../playground/providers/agents.ts'
import { deferred, promptly, turn } from '../promptly.ts'

const agentOf = (id: string) => ({ id, session: { id } }) as unknown as Agent
const [ada, bo] = [agentOf('ada'), agentOf('bo')]

async function registry() {
  const root = new Context()
  const fiber = await root.plugin(AgentRegistry)
  onTestFinished(() => void root.fiber.dispose())
  return { root, fiber: fiber.ctx.fiber, agents: root.agents }
}

describe('reads', () => {
  test('the optional read yields nothing and the required one throws outside any boundary', async () => {
    const { agents } = await registry()
    expect(agents.currentInitiator()).toBeUndefined()
    expect(() => agents.requireInitiator()).toThrow('no initiating agent is active')
  })

  test('inside a boundary both yield the exact agent, also after awaits', async () => {
    const { agents } = await registry()
    await agents.withInitiator(ada, async () => {
      await turn()
      expect(agents.currentInitiator()).toBe(ada)
      expect(agents.requireInitiator()).toBe(ada)
    })
    expect(agents.currentInitiator()).toBeUndefined()
  })
})

describe('boundaries', () => {
  test('return the exact value, the exact Promise and the exact cross-realm Promise', async () => {
    const { agents } = await registry()
    const value = {}
    const promise = Promise.resolve(1)
    const foreign = runInNewContext('Promise.resolve(1)') as Promise<number>
    for (const run of [
      <R>(op: () => R) => agents.withInitiator(ada, op),
      <R>(op: () => R) => agents.withoutInitiator(op)
    ]) {
      expect(run(() => value)).toBe(value)
      expect(run(() => promise)).toBe(promise)
      expect(run(() => foreign)).toBe(foreign)
    }
  })

  test('isolate overlapping operations and nest', async () => {
    const { agents } = await registry()
    const gate = deferred()
    const read = async () => (await gate.promise, agents.currentInitiator())
    const reads = [agents.withInitiator(ada, read), agents.withInitiator(bo, read)]
    agents.withInitiator(ada, () => {
      agents.withInitiator(bo, () => expect(agents.currentInitiator()).toBe(bo))
      agents.withoutInitiator(() => expect(agents.currentInitiator()).toBeUndefined())
      expect(agents.currentInitiator()).toBe(ada)
    })
    gate.resolve()
    expect(await Promise.all(reads)).toEqual([ada, bo])
  })

  test('give the caller its own agent back as soon as they return, after a throw and after a rejection', async () => {
    const { agents } = await registry()
    await agents.withInitiator(ada, async () => {
      const inner = agents.withInitiator(bo, async () => (await turn(), agents.currentInitiator()))
      expect(agents.currentInitiator()).toBe(ada)
      expect(await inner).toBe(bo)
      expect(() =>
        agents.withInitiator(bo, () => {
          throw new Error('thrown')
        })
      ).toThrow('thrown')
      await expect(agents.withInitiator(bo, () => Promise.reject(new Error('rejected')))).rejects.toThrow('rejected')
      expect(agents.currentInitiator()).toBe(ada)
    })
  })

  test('observe a Promise with a then of its own without calling it, and one whose species throws', async () => {
    const { agents, fiber } = await registry()
    const own = Object.assign(Promise.resolve(1), { then: () => expect.unreachable('called') })
    class Odd extends Promise<number> {
      static override get [Symbol.species](): never {
        throw new Error('species')
      }
    }
    const odd = new Odd(resolve => resolve(1))
    const held = agents.withInitiator(ada, () => own)
    expect(held === own).toBe(true)
    expect(agents.withInitiator(ada, () => odd)).toBe(odd)
    await promptly(fiber.dispose(), 'drain of settled promises')
  })
})

describe('the list and the factory', () => {
  test('an agent is listed until its disposer or its fiber ends, with one event each', async () => {
    const { root, agents } = await registry()
    const seq: string[] = []
    root.on('agent/created', ({ agent }) => void seq.push(`created ${agent.id}`))
    root.on('agent/disposed', ({ agent }) => void seq.push(`disposed ${agent.id}`))
    const remove = agents.register(ada)
    const owner = await root.plugin({ inject: ['agents'], apply: ctx => void ctx.agents.register(bo) })
    expect(agents.list()).toEqual([ada, bo])
    expect(() => agents.register(agentOf('ada'))).toThrow('agent "ada" is already registered')
    expect(agents.get('ada')).toBe(ada)
    remove()
    await owner.dispose()
    expect(agents.list()).toEqual([])
    expect(seq).toEqual(['created ada', 'created bo', 'disposed ada', 'disposed bo'])
  })

  test('creation is refused without a factory and goes to the only one there may be', async () => {
    const { agents } = await registry()
    await expect(agents.create()).rejects.toThrow('no agent factory is registered')
    await expect(agents.resume({ id: 'ada' })).rejects.toThrow('no agent factory is registered')
    const remove = agents.setFactory({ createAgent: async () => ada, resume: async () => bo })
    expect(() => agents.setFactory({ createAgent: async () => ada, resume: async () => bo })).toThrow(
      'already registered'
    )
    expect(await agents.create()).toBe(ada)
    expect(await agents.resume({ id: 'bo' })).toBe(bo)
    remove()
    await expect(agents.create()).rejects.toThrow('no agent factory is registered')
  })

  test('ctx.agent is undefined on ordinary contexts, also inside a boundary', async () => {
    const { root, agents } = await registry()
    expect(root.agent).toBeUndefined()
    await root.plugin({
      apply(ctx) {
        expect(ctx.agent).toBeUndefined()
      }
    })
    agents.withInitiator(ada, () => expect(root.agent).toBeUndefined())
  })
})
