import { AsyncResource } from 'node:async_hooks'
import type { Agent } from '../agents.ts'
import type { Progress } from './progress.ts'

/**
 * The running side of one agent: it drives, or is parked, and can be told to stop at the next step boundary (`park`) or
 * right now (`cut`). One drive is one boundary.
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
  private readonly drive: () => Promise<void>
  private driving = false
  private stopped = false
  private abort: (reason: Error) => void = () => {}
  private wakeUp = () => {}

  constructor(agent: Agent, progress: Progress, drive: (driver: Driver) => Promise<void>) {
    this.agent = agent
    this.progress = progress
    this.drive = async () => drive(this)
  }

  /** Drives on, unless the agent has stopped. */
  start(): void {
    if (this.stopped) return
    this.parking = false
    if (this.driving) return
    this.driving = true
    this.done = this.drive().then(
      () => {
        this.driving = false
        // Told to go on between its last look at `parking` and its end.
        if (!this.parking) this.start()
      },
      () => void (this.driving = false)
    )
  }

  /** Stops at the next step boundary. A call that only waits is cut off, it would hold up everybody. */
  park(): void {
    this.parking = true
    if (this.yielding) this.cut()
    this.wakeUp()
  }

  /** Aborts the signal of the turn that is open. */
  cut(): void {
    this.abort(new Error(`agent "${this.agent.id}" is interrupted`))
  }

  /** Parks now and for good. */
  stop(): void {
    this.stopped = true
    this.park()
    this.cut()
  }

  /** There is a new prompt. A drive that failed is tried again. */
  wake(): void {
    if (!this.parking) this.start()
    this.wakeUp()
  }

  /** Resolves when there is a prompt or the driver is to park. */
  idle(): Promise<void> {
    return new Promise(resolve => (this.wakeUp = resolve))
  }

  /** A new signal, the same for everything that the turn asks for. */
  beginTurn(): AbortSignal {
    const turn = new AbortController()
    // Listeners run where the signal is aborted, which may be anywhere; they are to read their own agent.
    this.abort = AsyncResource.bind((reason: Error) => turn.abort(reason))
    this.signal = turn.signal
    return turn.signal
  }
}
