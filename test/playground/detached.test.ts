import { describe, expect, test } from 'vitest'
import { Visitor } from '../../playground/extras/visitor.ts'
import { deferred, promptly, turn } from '../promptly.ts'
import { boot } from './fixture.ts'

const gone = 'agent initiator scope is disposed'

async function withAda() {
  const harness = await boot()
  const { agents } = harness.root
  return { harness, agents, ada: await agents.create({ id: 'ada' }) }
}

describe('work that a boundary does not return', () => {
  test('is not drained', async () => {
    const { harness, agents, ada } = await withAda()
    const gate = deferred()
    let ended = false
    agents.withInitiator(ada, () => void gate.promise.then(() => (ended = true)))
    agents.withoutInitiator(() => void gate.promise.then(() => (ended = true)))
    await harness.dispose('agents')
    expect(ended).toBe(false)
    gate.resolve()
  })

  test('inherits the agent until it ends, long after its boundary has', async () => {
    const { agents, ada } = await withAda()
    const gate = deferred()
    const seen: unknown[] = []
    const { promise: ended, resolve } = deferred()
    agents.withInitiator(ada, () => {
      void gate.promise.then(async () => {
        seen.push(agents.currentInitiator())
        await turn()
        seen.push(agents.requireInitiator())
        resolve()
      })
    })
    expect(agents.currentInitiator()).toBeUndefined()
    gate.resolve()
    await promptly(ended, 'end of the detached work')
    expect(seen).toEqual([ada, ada])
  })

  test('inherits the agent until the scope is disposed, and the registry that comes after has nothing of it', async () => {
    const { harness, agents, ada } = await withAda()
    const [draining, over] = [deferred(), deferred()]
    const holds = deferred()
    let detached!: Promise<unknown[]>
    agents.withInitiator(ada, () => {
      detached = (async () => {
        await draining.promise
        const read = agents.requireInitiator()
        holds.resolve()
        await over.promise
        expect(() => agents.requireInitiator()).toThrow(gone)
        return [read, harness.root.agents.currentInitiator()]
      })()
    })
    void agents.withInitiator(ada, () => holds.promise)
    const disposed = harness.dispose('agents')
    draining.resolve()
    await disposed
    await harness.install('agents')
    await harness.settled()
    over.resolve()
    expect(await promptly(detached, 'detached work')).toEqual([ada, undefined])
  })
})

describe('shared infrastructure that is started within an agent', () => {
  test('has no initiator where it is a timer: the visitor asks as nobody', async () => {
    const { harness, agents, ada } = await withAda()
    const asks = new Promise<unknown>(
      resolve =>
        void harness.root.on('session/event', ({ event }) => {
          if (event.type === 'prompt') resolve(agents.currentInitiator() ?? 'nobody')
        })
    )
    const visitor = agents.withInitiator(ada, () => harness.root.plugin(Visitor, { every: 1 }))
    expect(await promptly(asks, 'a visit')).toBe('nobody')
    await visitor.dispose()
  })

  test('has no initiator where it is a pool: a job runs as nobody, and does not hold up the drain', async () => {
    const { harness, agents, ada } = await withAda()
    const gate = deferred<string>()
    const seen: unknown[] = []
    const run = async () => (seen.push(agents.currentInitiator()), gate.promise)
    agents.withInitiator(ada, () => harness.root.jobs.start({ owner: 'ada', id: 'job', run }))
    await harness.dispose('agents')
    expect(seen).toEqual([undefined])
    expect(harness.root.jobs.read('ada', 'job').state).toBe('running')
    gate.resolve('done')
  })

  test('has no initiator where it is a queue: what waits in it is not started as whoever makes room', async () => {
    const harness = await boot({ jobs: { limit: 1 } })
    const { agents, jobs } = harness.root
    const [ada, bo] = [await agents.create({ id: 'ada' }), await agents.create({ id: 'bo' })]
    const first = deferred<string>()
    const seen: unknown[] = []
    agents.withInitiator(ada, () => jobs.start({ owner: 'ada', id: 'first', run: () => first.promise }))
    const run = async () => String(seen.push(agents.currentInitiator()))
    agents.withInitiator(bo, () => jobs.start({ owner: 'bo', id: 'second', run }))
    agents.withInitiator(ada, () => first.resolve('room'))
    await promptly(jobs.ended('bo', 'second'), 'end of the queued job')
    expect(seen).toEqual([undefined])
  })
})
