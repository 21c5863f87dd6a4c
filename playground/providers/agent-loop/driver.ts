import { AsyncResource } from 'node:async_hooks'
import type { Agent } from '../agents.ts'
import { asNobody } from './nobody.ts'
import type { Progress } from './progress.ts'

/** What a driver asks of its loop. */
export interface DriverHost {
  /** Drives until the agent is idle or the driver parks: one drive is one boundary. */
  drive(driver: Driver): Promise<void>
  tell(driver: Driver, is: 'driving' | 'parked'): void
}

/**
 * The running side of one agent: it goes, or is parked, and can be told to stop at the next step boundary (`park`) or right
 * now (`cut`). While it goes there is a drive for as long as there are prompts, and none while the agent is idle.
 */
export class Driver {
  readonly agent: Agent
  readonly progress: Progress
  /** Asked to stop at the next step boundary. */
  parking = true
  /** The tool call that runs only waits for something durable. */
  yielding = false
  /** Settles when the drive that was started last has stopped. */
  done: Promise<void> = Promise.resolve()
  /** The signal of the turn that is open or was last. */
  signal = new AbortController().signal
  private readonly host: DriverHost
  private readonly interruption: Error
  private readonly stopping = new AbortController()
  private driving = false
  private told: 'driving' | 'parked' = 'parked'
  private abort: (reason: Error) => void = () => {}

  constructor(agent: Agent, progress: Progress, host: DriverHost) {
    this.agent = agent
    this.progress = progress
    this.host = host
    this.interruption = new Error(`agent "${agent.id}" is interrupted`)
  }

  /** Aborts when the driver is stopped for good: what may come only after is not to be waited for in its drive. */
  get stopped(): AbortSignal {
    return this.stopping.signal
  }

  /** What it has to end before it can park. */
  get step(): string {
    const { turn } = this.progress
    const call = turn?.calls[0]
    return call ? `tool call "${call.name}"` : turn ? 'the answer of the model' : 'the begin of its turn'
  }

  /** Goes on, unless the agent has stopped. */
  start(): void {
    if (this.stopped.aborted) return
    this.parking = false
    if (this.driving) return
    this.tell('driving')
    this.drive()
  }

  /** Stops at the next step boundary. A call that only waits is cut off, it would hold up everybody. */
  park(): void {
    this.parking = true
    if (this.yielding) this.cut()
    if (!this.driving) this.tell('parked')
  }

  /** Aborts the signal of the turn that is open. */
  cut(): void {
    this.abort(this.interruption)
  }

  /** Parks now and for good. */
  stop(): void {
    this.stopping.abort(this.interruption)
    this.park()
    this.cut()
  }

  /** There is a new prompt. A drive that failed is tried again. */
  wake(): void {
    if (!this.parking) this.start()
  }

  /** A new signal, the same foreverything that the turn asks for. */
  beginTurn(): AbortSignal {
    const turn = new AbortController()
    // Listeners run where the signal is aborted, which may be anywhere; they are to read their own agent.
    this.abort = AsyncResource.bind((reason: Error) => turn.abort(reason))
    this.signal = turn.signal
    return turn.signal
  }

  /** Whoever creates or wakes an agent is no part of what it does then. */
  private drive(): void {
    if (this.driving || this.parking || this.progress.queue.length === 0) return
    this.driving = true
    this.done = asNobody(async () => {
      let failed = false
      try {
        // Not at once: what is said to the agent is complete before it does anything.
        await Promise.resolve()
        await this.host.drive(this)
      } catch {
        failed = true
      }
      this.driving = false
      if (failed || this.parking) this.tell('parked')
      // A prompt that came, or a word to go on, between its last look and its end.
      else this.drive()
    })
  }

  private tell(is: 'driving' | 'parked'): void {
    if (this.told === is) return
    this.told = is
    asNobody(() => this.host.tell(this, is))
  }
}
