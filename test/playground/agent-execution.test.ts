import { describe, expect, test } from 'vitest'
import type { AgentExecution } from '../../playground/providers/agent-execution.ts'
import { deferred, promptly, turn } from '../promptly.ts'
import { boot, type Harness } from './fixture.ts'

const gone = 'agent execution service is disposed'

/** Ada in a call that reads her frame a while after its signal has aborted. */
async function readingWhenAborted(harness: Harness) {
  const { agentExecution, agents } = harness.root
  const read = deferred<unknown[]>()
  await harness.offer({
    name: 'hang',
    execute: ({ signal }) =>
      new Promise((_, reject) => {
        signal.addEventListener('abort', () => {
          void turn()
            .then(() => read.resolve([agentExecution.require().agent.id, agents.requireInitiator().id]))
            .catch(read.reject)
            .finally(() => reject(signal.reason))
        })
      })
  })
  const called = harness.recorded('ada', 'call')
  const ada = await agents.create({ id: 'ada' })
  ada.prompt('use hang')
  await called
  return read.promise
}

describe('reads through a kept reference', () => {
  for (const which of ['agents', 'root'] as const) {
    test(`work in a driver's abort path while the disposal of ${which} drains, and throw after`, async () => {
      const harness = await boot()
      const { agentExecution, agents } = harness.root
      const read = readingWhenAborted(harness)
      await harness.recorded('ada', 'call')
      const disposed = which === 'root' ? harness.root.fiber.dispose() : harness.dispose(which)
      expect(await promptly(read, 'the abort path')).toEqual(['ada', 'ada'])
      await promptly(disposed, 'disposal')
      expect(() => agentExecution.current()).toThrow(gone)
      expect(() => agentExecution.require()).toThrow(gone)
      expect(() => agents.currentInitiator()).toThrow('agent initiator scope is disposed')
    })
  }

  test('work until a boundary of its own has settled when the service alone is disposed, and not after', async () => {
    const harness = await boot()
    const { agentExecution, agents } = harness.root
    const ada = await agents.create({ id: 'ada' })
    const gate = deferred()
    const running = agentExecution.run({ agent: ada }, async () => {
      await gate.promise
      return agentExecution.require().agent
    })
    const disposed = harness.dispose('agent-execution')
    await turn()
    gate.resolve()
    expect(await running).toBe(ada)
    await disposed
    const late = deferred()
    const driving = agents.withInitiator(ada, () => late.promise)
    expect(() => agentExecution.current()).toThrow(gone)
    // Nor when the registry drains later on.
    const closed = harness.dispose('agents')
    expect(() => agentExecution.current()).toThrow(gone)
    late.resolve()
    await Promise.all([driving, closed])
  })
})

describe('a frame', () => {
  test('is one object for as long as a driver runs, and the one that was given within run', async () => {
    const harness = await boot()
    const { agentExecution, agents } = harness.root
    const seen: AgentExecution[] = []
    await harness.offer({
      name: 'look',
      async execute() {
        seen.push(agentExecution.require())
        await turn()
        seen.push(agentExecution.current()!)
        return ''
      }
    })
    await harness.ask('ada', 'use look then look')
    expect(seen).toHaveLength(4)
    expect(new Set(seen).size).toBe(1)
    const given = { agent: agents.get('ada')! }
    expect(agentExecution.run(given, () => [agentExecution.current(), agentExecution.require()])).toEqual([
      given,
      given
    ])
    expect(agentExecution.run(given, () => agentExecution.current() === given)).toBe(true)
  })

  test('carries an agent that has ended, which is neither live nor allowed anything for that', async () => {
    const harness = await boot()
    const { agentExecution, agents } = harness.root
    const ada = await agents.create({ id: 'ada' })
    await agentExecution.run({ agent: ada }, async () => {
      await ada.end()
      expect(agentExecution.require().agent).toBe(ada)
      expect(agents.requireInitiator()).toBe(ada)
      expect(agents.get('ada')).toBeUndefined()
      expect(() => ada.prompt('late')).toThrow('session "ada" is closed')
    })
  })
})

test('run returns the very value, thenable or Promise that the operation returned', async () => {
  const { root } = await boot()
  const agent = await root.agents.create({ id: 'ada' })
  for (const execution of [{ agent }, undefined]) {
    const values = [{}, () => {}, Symbol('s'), 1n, '', undefined, null, { then: expect.unreachable }, Promise.resolve()]
    for (const value of values) expect(root.agentExecution.run(execution, () => value) === value).toBe(true)
  }
})

test('a transport of the first version derives the session header from its frame', async () => {
  const harness = await boot()
  const { agentExecution } = harness.root
  const headers: unknown[] = []
  await harness.offer({
    name: 'post',
    async execute() {
      await turn()
      headers.push({ 'X-Harness-Session-Id': agentExecution.require().agent.session.id })
      return 'posted'
    }
  })
  await Promise.all(['ada', 'bo'].map(id => harness.ask(id, 'use post')))
  expect(headers).toEqual(['ada', 'bo'].map(id => ({ 'X-Harness-Session-Id': id })))
})

describe('new boundaries are refused with its own error', () => {
  for (const which of ['agent-execution', 'agents', 'root'] as const) {
    test(`from the moment ${which} starts to unload until after`, async () => {
      const harness = await boot()
      const { agentExecution } = harness.root
      const run = () => agentExecution.run(undefined, () => {})
      const disposed = which === 'root' ? harness.root.fiber.dispose() : harness.fiber(which).dispose()
      expect(run).toThrow(gone)
      await turn()
      expect(run).toThrow(gone)
      await promptly(disposed, 'disposal')
      expect(run).toThrow(gone)
    })
  }

  test('and what an operation itself throws stays what it was', async () => {
    const { root } = await boot()
    const error = new Error('agent initiator scope is disposed')
    const thrown = () =>
      root.agentExecution.run(undefined, () => {
        throw error
      })
    expect(thrown).toThrow(error)
  })
})
