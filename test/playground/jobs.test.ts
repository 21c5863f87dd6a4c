import { describe, expect, test } from 'vitest'
import { deferred, promptly, turn } from '../promptly.ts'
import { boot, type Harness, type ProviderName } from './fixture.ts'

/** Starts a job that ends when the test says so. */
function gateJob(harness: Harness, owner: string, id: string) {
  const gate = { ...deferred<string>(), begun: deferred() }
  harness.root.jobs.start({
    owner,
    id,
    run: ({ signal }) => {
      gate.begun.resolve()
      signal.addEventListener('abort', () => gate.reject(signal.reason))
      return gate.promise
    }
  })
  return gate
}

const ended = (harness: Harness, owner: string, id: string) =>
  promptly(harness.root.jobs.ended(owner, id), `end of job ${id}`)

describe('a job', () => {
  test('is started, read and killed by an agent through its tools', async () => {
    const harness = await boot()
    const answer = await harness.ask('ada', 'use job-start 60000 tea then job-read p1-0-0 then job-kill p1-0-0')
    expect(answer).toContain('job p1-0-0 running; job p1-0-0 running; job p1-0-0')
    expect(await ended(harness, 'ada', 'p1-0-0')).toEqual({ id: 'p1-0-0', state: 'killed', output: '' })
    expect(await harness.ask('ada', 'use job-kill p1-0-0')).toContain('job p1-0-0 killed')
    expect(harness.root.jobs.kill('ada', 'p1-0-0')).toBe(false)
  })

  test('says what came out of it, or what went wrong', async () => {
    const harness = await boot()
    await harness.ask('ada', 'use job-start 1 the tea is ready')
    const { id } = harness.root.jobs.list('ada')[0]!
    await ended(harness, 'ada', id)
    expect(await harness.ask('ada', `use job-read ${id}`)).toContain(`job ${id} done: the tea is ready`)
    gateJob(harness, 'ada', 'bad').reject(new Error('no water'))
    expect(await ended(harness, 'ada', 'bad')).toEqual({ id: 'bad', state: 'failed', output: 'no water' })
  })

  const others: ProviderName[] = ['job-tools', 'tools', 'agent-loop', 'agents', 'sessions', 'session-log']
  for (const kind of ['announced', 'unannounced']) {
    test.each(others)(`survives the ${kind} reload of %s, and its owner still has it`, async name => {
      const harness = await boot()
      const { root } = harness
      await harness.ask('ada', 'use job-start 60000 tea')
      const gate = gateJob(harness, 'ada', 'gate')
      const { id } = root.jobs.list('ada')[0]!
      await harness.reload(name, { announced: kind === 'announced' })
      expect(await harness.ask('ada', `use job-read ${id}`)).toContain(`job ${id} running`)
      gate.resolve('still here')
      expect(await ended(harness, 'ada', 'gate')).toMatchObject({ state: 'done', output: 'still here' })
      expect(await harness.ask('ada', `use job-kill ${id}`)).toContain(`job ${id} is being killed`)
      expect(await ended(harness, 'ada', id)).toMatchObject({ state: 'killed' })
    })
  }

  test('is read and killed by its owner only, also where others have one of the same id', async () => {
    const harness = await boot()
    const { jobs } = harness.root
    await harness.ask('ada', 'use job-start 60000 tea')
    for (const verb of ['job-read', 'job-kill']) {
      expect(await harness.ask('bo', `use ${verb} p1-0-0`)).toContain('error: job "p1-0-0" is not known')
    }
    const bos = gateJob(harness, 'bo', 'p1-0-0')
    expect(jobs.kill('bo', 'p1-0-0')).toBe(true)
    await expect(bos.promise).rejects.toThrow('job "p1-0-0" is killed')
    expect(jobs.read('ada', 'p1-0-0').state).toBe('running')
    expect(jobs.list('cy')).toEqual([])
    await expect(jobs.ended('cy', 'p1-0-0')).rejects.toThrow('job "p1-0-0" is not known')
  })

  test('has no owner from an argument, and none from who happens to run', async () => {
    const harness = await boot()
    const { agents, jobs, tools } = harness.root
    const [ada, bo] = [await agents.create({ id: 'ada' }), await agents.create({ id: 'bo' })]
    const { signal } = new AbortController()
    const args = { ms: 60_000, text: 'tea', owner: 'bo', agent: 'bo', sessionId: 'bo' }
    const call = { callId: 'c', name: 'job-start', args, cwd: '.', signal }
    await agents.withInitiator(bo, () => tools.execute({ ...call, agent: ada }))
    expect([jobs.list('ada').length, jobs.list('bo').length]).toEqual([1, 0])
    await agents.withInitiator(bo, () =>
      expect(tools.execute({ ...call, agent: undefined })).rejects.toThrow('only an agent can own a job')
    )
    expect(jobs.list('bo')).toEqual([])
  })

  test('is not started twice by a call that is made again', async () => {
    const harness = await boot()
    const { agents, jobs, tools } = harness.root
    const ada = await agents.create({ id: 'ada' })
    const { signal } = new AbortController()
    const call = { agent: ada, callId: 'c', name: 'job-start', args: { ms: 60_000, text: 'tea' }, cwd: '.', signal }
    await tools.execute(call)
    await tools.execute(call)
    expect(jobs.list('ada')).toHaveLength(1)
  })

  test('ends with its owner, and with the pool', async () => {
    const harness = await boot()
    const { agents, jobs } = harness.root
    const ada = await agents.create({ id: 'ada' })
    const [adas, bos] = [gateJob(harness, 'ada', 'one'), gateJob(harness, 'bo', 'one')]
    const over = ended(harness, 'ada', 'one')
    await ada.end()
    await expect(promptly(adas.promise, 'end')).rejects.toThrow('job "one" is killed')
    expect((await over).state).toBe('killed')
    expect(jobs.list('ada')).toEqual([])
    const refused = expect(bos.promise).rejects.toThrow('job "one" is killed')
    await harness.dispose('jobs')
    await refused
    expect(() => jobs.start({ owner: 'bo', id: 'late', run: async () => '' })).toThrow('job pool is disposed')
  })
})

describe('the pool of jobs', () => {
  test('runs as many as its limit says, the others in order after, and never one that was killed in the queue', async () => {
    const harness = await boot({ jobs: { limit: 1 } })
    const { jobs } = harness.root
    const [one, two, three] = ['one', 'two', 'three'].map(id => gateJob(harness, 'ada', id))
    expect(jobs.list('ada').map(job => job.state)).toEqual(['running', 'queued', 'queued'])
    expect(jobs.kill('ada', 'two')).toBe(true)
    one!.resolve('done')
    await promptly(three!.begun.promise, 'begin of the third')
    expect(jobs.list('ada').map(job => job.state)).toEqual(['done', 'killed', 'running'])
    let begun = false
    void two!.begun.promise.then(() => (begun = true))
    await turn()
    expect(begun).toBe(false)
  })

  test('keeps the place of a job that outlives its owner until the job ends, and waits for it when it goes', async () => {
    const harness = await boot({ jobs: { limit: 1 } })
    const { agents, jobs } = harness.root
    const ada = await agents.create({ id: 'ada' })
    const deaf = deferred<string>()
    jobs.start({ owner: 'ada', id: 'deaf', run: () => deaf.promise })
    const next = gateJob(harness, 'bo', 'next')
    const refused = expect(next.promise).rejects.toThrow('job "next" is killed')
    await ada.end()
    expect(jobs.list('bo')[0]!.state).toBe('queued')
    deaf.resolve('late')
    await promptly(next.begun.promise, 'begin of the next job')
    const stubborn = deferred<string>()
    jobs.kill('bo', 'next')
    await refused
    await ended(harness, 'bo', 'next')
    jobs.start({ owner: 'cy', id: 'stubborn', run: () => stubborn.promise })
    const seq: string[] = []
    const disposed = harness.dispose('jobs').then(() => seq.push('disposed'))
    await turn()
    seq.push('ends')
    stubborn.resolve('')
    await disposed
    expect(seq).toEqual(['ends', 'disposed'])
  })

  test('starts its jobs without an initiator, in the agent that asks and in the job that makes room', async () => {
    const harness = await boot({ jobs: { limit: 1 } })
    const { agents, jobs } = harness.root
    const [ada, bo] = [await agents.create({ id: 'ada' }), await agents.create({ id: 'bo' })]
    const gate = deferred()
    const seen: unknown[] = []
    const run = async () => {
      seen.push(agents.currentInitiator())
      await gate.promise
      seen.push(agents.currentInitiator())
      return ''
    }
    agents.withInitiator(ada, () => {
      jobs.start({ owner: 'ada', id: 'first', run })
      expect(agents.currentInitiator()).toBe(ada)
    })
    agents.withInitiator(bo, () => jobs.start({ owner: 'bo', id: 'queued', run }))
    agents.withInitiator(bo, () => gate.resolve())
    await ended(harness, 'bo', 'queued')
    expect(seen).toEqual([undefined, undefined, undefined, undefined])
  })
})

// A rejection that nobody handles fails the run.
describe('while the registry unloads', () => {
  test('a job may be started in the same tick', async () => {
    const harness = await boot()
    const disposed = harness.fiber('agents').dispose()
    const gate = gateJob(harness, 'ada', 'job')
    await promptly(gate.begun.promise, 'the job')
    gate.resolve('done')
    await disposed
    expect((await ended(harness, 'ada', 'job')).output).toBe('done')
  })

  test.each([0, 1, 2, 3, 4, 5, 6, 7, 8])('a job that ends %i ticks before lets the next one begin', async ticks => {
    const harness = await boot({ jobs: { limit: 1 } })
    const [one, two] = [gateJob(harness, 'ada', 'one'), gateJob(harness, 'ada', 'two')]
    one.resolve('done')
    for (let i = 0; i < ticks; i++) await null
    const disposed = harness.fiber('agents').dispose()
    await promptly(two.begun.promise, 'the second job')
    await disposed
  })

  test.each([0, 1, 2, 3, 4, 5, 6, 7, 8])('so does one %i ticks before all else ends, or it is killed', async ticks => {
    const harness = await boot({ jobs: { limit: 1 } })
    const [one] = [gateJob(harness, 'ada', 'one'), gateJob(harness, 'ada', 'two')]
    one.resolve('done')
    for (let i = 0; i < ticks; i++) await null
    const { jobs } = harness.root
    await promptly(harness.root.fiber.dispose(), 'disposal')
    expect(jobs.list('ada').map(({ state }) => state)).toEqual(['done', 'killed'])
    await turn()
  })
})
