import { describe, expect, onTestFinished, test } from 'vitest'
import type { Context, Events } from 'cordis'
import { deferred, promptly, turn } from '../promptly.ts'
import { boot, expectSound, type Harness } from './fixture.ts'

/** What nobody handles in the course of a test. */
function unhandled(): unknown[] {
  const seen: unknown[] = []
  const others = process.listeners('unhandledRejection')
  process.removeAllListeners('unhandledRejection')
  process.on('unhandledRejection', error => void seen.push(error))
  onTestFinished(() => {
    process.removeAllListeners('unhandledRejection')
    for (const other of others) process.on('unhandledRejection', other)
  })
  return seen
}

const bad: Record<string, () => void> = {
  throws: () => {
    throw new Error('bad')
  },
  rejects: () => Promise.reject(new Error('bad')) as never,
  'gives a thenable that throws': () =>
    ({
      get then(): never {
        throw new Error('bad')
      }
    }) as never,
  'throws what cannot be read': () => {
    throw Object.create(null)
  }
}

const emitted = [
  'session/event',
  'agent/created',
  'agent/disposed',
  'agent/delta',
  'agent/driving',
  'agent/parked'
] as const

/** A provider that listens before all others, badly. */
const spoil = ({ root }: Harness, names: readonly (keyof Events & string)[], listener: () => void) =>
  root.plugin({
    name: 'spoiler',
    apply(ctx: Context) {
      for (const name of names) ctx.on(name, listener as never, { prepend: true })
    }
  })

describe.each(Object.keys(bad))('a listener that %s', how => {
  test('starves no other one, and is logged with its owner', async () => {
    const seen = unhandled()
    const harness = await boot()
    await spoil(harness, emitted, bad[how]!)
    const heard = new Set<string>()
    for (const name of emitted) harness.root.on(name, () => void heard.add(name))
    const ada = await harness.root.agents.create({ id: 'ada' })
    expect(await promptly(ada.prompt('hello').answer(), 'answer')).toContain('hello')
    await promptly(harness.root.agentLoop.park(), 'parking')
    await ada.end()
    for (let i = 0; i < 3; i++) await turn()
    expect(heard).toEqual(new Set(emitted))
    expect(seen).toEqual([])
    for (const name of emitted) {
      const logged = expect.stringContaining(`provider "spoiler": its listener of ${name} failed for `)
      expect(harness.problems).toContainEqual(logged)
    }
    expectSound(harness.record('ada').filter(({ type }) => type !== 'ended'))
  })

  test('keeps neither the jobs nor the children of an agent that ends', async () => {
    const harness = await boot()
    const { agents, jobs, sessions } = harness.root
    const ada = await agents.create({ id: 'ada' })
    const inChild = harness.event(
      'session/event',
      ({ sessionId, event }) => sessionId !== 'ada' && event.type === 'call'
    )
    ada.prompt('spawn: use wait 60000')
    await inChild
    const killed = deferred()
    jobs.start({
      owner: 'ada',
      id: 'job',
      run: ({ signal }) =>
        new Promise((_, reject) => {
          signal.addEventListener('abort', () => {
            killed.resolve()
            reject(signal.reason)
          })
        })
    })
    await spoil(harness, ['session/event', 'agent/disposed'], bad[how]!)
    const child = harness.root.sessions.ids().find(id => id !== 'ada')!
    const ended = harness.recorded(child, 'ended')
    await ada.end()
    await promptly(Promise.all([killed.promise, ended]), 'the job and the child end with her')
    expect([agents.list(), sessions.read(child).at(-1)!.type]).toEqual([[], 'ended'])
  })

  test('of agent/step ends the turn with its error, and the next prompt is answered', async () => {
    const seen = unhandled()
    const harness = await boot()
    const provider = await spoil(harness, ['agent/step'], bad[how]!)
    const steps: string[] = []
    harness.root.on('agent/step', ({ agent }) => void steps.push(agent.id))
    const ada = await harness.root.agents.create({ id: 'ada' })
    await expect(promptly(ada.prompt('one').answer(), 'the end of the turn')).rejects.toThrow(
      'prompt "p1": provider "spoiler": its listener of agent/step failed: '
    )
    await provider.dispose()
    expect(await promptly(ada.prompt('two').answer(), 'the next')).toContain('two')
    expect(steps).toContain('ada')
    expect(harness.problems[0]).toContain('agent "ada": provider "spoiler": its listener of agent/step failed: ')
    expect(seen).toEqual([])
    expectSound(harness.record('ada'))
  })
})

test('a step listener that fails once is told, asked again, and the prompt is answered', async () => {
  const harness = await boot()
  const { root } = harness
  let failures = 1
  root.on('agent/step', () => {
    if (failures-- > 0) throw new Error('flaky')
  })
  const ada = await root.agents.create({ id: 'ada' })
  expect(await promptly(ada.prompt('one').answer(), 'the answer')).toContain('one')
  expect(harness.problems).toEqual([expect.stringContaining('its listener of agent/step failed: flaky')])
  expectSound(harness.record('ada'))
})

test('a step listener that gives up when its signal aborts is no failure', async () => {
  const harness = await boot()
  const { root } = harness
  const waits = deferred()
  const off = root.on('agent/step', ({ signal }) => {
    waits.resolve()
    return new Promise((_, reject) => signal.addEventListener('abort', () => reject(signal.reason)))
  })
  const ada = await root.agents.create({ id: 'ada' })
  const answer = ada.prompt('one').answer()
  await waits.promise
  await promptly(root.agentLoop.park(), 'parking')
  off()
  root.agentLoop.go()
  expect(await promptly(answer, 'answer')).toContain('one')
  expect(harness.problems).toEqual([])
})

test('a child that cannot be put on record as ended is logged, and nobody else is kept', async () => {
  const seen = unhandled()
  const harness = await boot()
  const { agents, sessionLog } = harness.root
  const ada = await agents.create({ id: 'ada' })
  const inChild = harness.event('session/event', ({ sessionId, event }) => sessionId !== 'ada' && event.type === 'call')
  ada.prompt('spawn: use wait 60000 and spawn: use wait 60000')
  await inChild
  const { append } = sessionLog
  sessionLog.append = (id, record) => {
    if (id !== 'ada' && (record as { type: string }).type === 'ended') throw new Error('no disk')
    append.call(sessionLog, id, record)
  }
  await ada.end()
  await turn()
  expect(seen).toEqual([])
  expect(harness.problems).toContainEqual(
    expect.stringContaining('provider "AgentLoop": its listener of session/event failed for session "ada": no disk')
  )
  sessionLog.append = append
})
