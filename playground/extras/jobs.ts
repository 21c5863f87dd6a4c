import type { Context } from 'cordis'
import { Job, type JobRequest, type JobView } from './jobs/job.ts'

/** Options of {@link JobPool}. */
export interface JobsConfig {
  /** How many jobs run at once; the others wait their turn. 4 by default. */
  limit?: number
}

declare module 'cordis' {
  interface Context {
    jobs: JobPool
  }
}

/**
 * Work that goes on after the tool call that asked for it (`ctx.jobs`): a pool and a queue that all agents share. A job has
 * an owner, who is named and never looked up, and ends with the owner or with this provider. It needs no other service,
 * so that no other reload ends it.
 */
export class JobPool {
  private readonly ctx: Context
  private readonly limit: number
  private jobs: Job[] = []
  private stopped = false

  constructor(ctx: Context, { limit = 4 }: JobsConfig = {}) {
    this.ctx = ctx
    this.limit = limit
    const stop = () => this.stop()
    const provide = () => ctx.reflect.provide('jobs', this)
    ctx.on('session/event', ({ sessionId, event }) => {
      if (event.type === 'ended') this.forget(sessionId)
    })
    ctx.effect(function* () {
      yield stop
      yield provide()
    }, 'jobs.lifecycle()')
  }

  /**
   * Starts a job, or puts it in the queue; the job that the owner has under that id is left as it is.
   * @throws after disposal.
   */
  start(request: JobRequest): JobView {
    if (this.stopped) throw new Error('job pool is disposed')
    const { owner, id } = request
    const known = this.jobs.find(job => job.is(owner, id))
    if (known) return known.view
    const job = new Job(request)
    this.jobs.push(job)
    this.next()
    return job.view
  }

  /** The jobs of an owner, oldest first. */
  list(owner: string): JobView[] {
    return this.jobs.filter(job => job.owner === owner).map(job => job.view)
  }

  /**
   * How a job stands.
   * @throws when the owner has no job of that id, whoever else may have one.
   */
  read(owner: string, id: string): JobView {
    return this.require(owner, id).view
  }

  /**
   * Resolves when a job has ended.
   * @throws as {@link read}.
   */
  async ended(owner: string, id: string): Promise<JobView> {
    const job = this.require(owner, id)
    await job.ended
    return job.view
  }

  /**
   * Aborts a job; false when it has ended.
   * @throws as {@link read}.
   */
  kill(owner: string, id: string): boolean {
    return this.require(owner, id).kill()
  }

  private require(owner: string, id: string): Job {
    const job = this.jobs.find(job => job.is(owner, id))
    if (!job) throw new Error(`job "${id}" is not known`)
    return job
  }

  private next(): void {
    const running = this.jobs.filter(({ state }) => state === 'running').length
    const queued = this.jobs.filter(({ state }) => state === 'queued')
    for (const job of queued.slice(0, Math.max(0, this.limit - running))) this.begin(job)
  }

  /** Whoever asks for a job, or makes room for it, is not to be its initiator; nor is the registry to wait for it. */
  private begin(job: Job): void {
    const begin = () => void job.begin().then(() => this.next())
    const agents = this.ctx.get('agents')
    if (agents?.initiatorState === 'open') agents.withoutInitiator(begin)
    else begin()
  }

  /** A job that does not care for its signal keeps its place in the pool until it ends. */
  private forget(owner: string): void {
    for (const job of this.jobs.filter(job => job.owner === owner)) {
      job.kill()
      void job.ended.then(() => (this.jobs = this.jobs.filter(other => other !== job)))
    }
    this.next()
  }

  private async stop(): Promise<void> {
    this.stopped = true
    const { jobs } = this
    for (const job of jobs) job.kill()
    await Promise.all(jobs.map(job => job.ended))
  }
}

export default JobPool
