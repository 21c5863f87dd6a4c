import type { Agent } from '../agents.ts'

/** The agents that are being set up. Each arrives, or is given up, whatever its setup waits for. */
export class Arrivals {
  private readonly open = new Map<string, { agent: Promise<Agent>; giveUp: (reason: Error) => void }>()

  /** The agent of that id, when it is on its way. */
  get(id: string): Promise<Agent> | undefined {
    return this.open.get(id)?.agent
  }

  /** Lets an agent arrive; what `arrive` waits for has to end when its signal aborts. */
  begin(id: string, arrive: (over: AbortController) => Promise<Agent>): Promise<Agent> {
    const over = new AbortController()
    const agent = arrive(over).finally(() => this.open.delete(id))
    this.open.set(id, { agent, giveUp: reason => over.abort(reason) })
    return agent
  }

  /** Gives up all that have not arrived. */
  giveUp(reason: Error): void {
    for (const { giveUp } of this.open.values()) giveUp(reason)
  }
}

/** The outcome of `task`, or a rejection with the reason of `signal` as soon as it aborts. */
export async function unlessAborted<T>(signal: AbortSignal, task: Promise<T>): Promise<T> {
  let abort!: () => void
  const aborted = new Promise<never>((_, reject) => {
    abort = () => reject(signal.reason as Error)
    signal.addEventListener('abort', abort)
    if (signal.aborted) abort()
  })
  try {
    return await Promise.race([task, aborted])
  } finally {
    signal.removeEventListener('abort', abort)
  }
}
