/** What a job is given to work with. */
export interface JobControl {
  /** Aborts when the job is killed. */
  signal: AbortSignal
}

/** A job to start. */
export interface JobRequest {
  /** The owner token, the id of the owner's session: whoever has it reads and kills the job. The same after any reload. */
  owner: string
  /** Unique among the owner's jobs. */
  id: string
  /** The work; what it resolves with is the output. */
  run(control: JobControl): Promise<string>
}

export type JobState = 'queued' | 'running' | 'done' | 'failed' | 'killed'

/** How a job stands. */
export interface JobView {
  id: string
  state: JobState
  /** What came out, or what went wrong. */
  output: string
}

/** One job of the pool. */
export class Job {
  readonly owner: string
  readonly id: string
  state: JobState = 'queued'
  /** Resolves when the job has ended, however it did. */
  readonly ended: Promise<void>
  private readonly run: JobRequest['run']
  private readonly controller = new AbortController()
  private output = ''
  private settle!: () => void

  constructor({ owner, id, run }: JobRequest) {
    this.owner = owner
    this.id = id
    this.run = run
    this.ended = new Promise(resolve => (this.settle = resolve))
  }

  get view(): JobView {
    const { id, state, output } = this
    return { id, state, output }
  }

  is(owner: string, id: string): boolean {
    return this.owner === owner && this.id === id
  }

  /** Runs it to its end; never rejects. */
  async begin(): Promise<void> {
    this.state = 'running'
    const { signal } = this.controller
    try {
      const output = await this.run({ signal })
      this.end(signal.aborted ? 'killed' : 'done', signal.aborted ? '' : output)
    } catch (error) {
      if (signal.aborted) this.end('killed')
      else this.end('failed', error instanceof Error ? error.message : String(error))
    }
  }

  /** Aborts it; false when it has ended, or was killed already. */
  kill(): boolean {
    if ((this.state !== 'queued' && this.state !== 'running') || this.controller.signal.aborted) return false
    this.controller.abort(new Error(`job "${this.id}" is killed`))
    if (this.state === 'queued') this.end('killed')
    return true
  }

  private end(state: JobState, output = ''): void {
    this.state = state
    this.output = output
    this.settle()
  }
}
