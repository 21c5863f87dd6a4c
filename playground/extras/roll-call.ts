import { Service, type Context, type Fiber } from 'cordis'

/** `FiberState.PENDING`: the enum is ambient and const, so that its members cannot be imported. */
const isPending = ({ state }: { state: number }): boolean => state === 0

/**
 * Says which providers are inactive, and for want of what: after the start, and after each reload. Cordis waits in silence
 * for a service that nobody provides, and an inactive provider cannot speak for itself.
 */
export class RollCall {
  private readonly ctx: Context
  private told = new Map<Fiber, string>()

  constructor(ctx: Context) {
    this.ctx = ctx
    ctx.on('harness-hmr/after-reload', () => this.call())
  }

  [Service.init](): Promise<void> {
    return this.call()
  }

  private async call(): Promise<void> {
    await this.settled()
    const told = new Map<Fiber, string>()
    for (const fiber of this.others()) {
      const missing = Object.keys(fiber.inject).filter(name => fiber.ctx.get(name) === undefined)
      if (!isPending(fiber) || missing.length === 0) continue
      const names = missing.map(name => `"${name}"`).join(', ')
      told.set(fiber, names)
      if (this.told.get(fiber) === names) continue
      this.ctx.logger.error(`provider "${fiber.name}" is inactive: nobody provides ${names}`)
    }
    this.told = told
  }

  /** What loads may be what others wait for. */
  private async settled(): Promise<void> {
    for (;;) {
      const busy = this.others().filter(fiber => fiber.inertia !== undefined)
      if (busy.length === 0) return
      await Promise.allSettled(busy.map(fiber => fiber.await()))
    }
  }

  /** Not those around this one: they may be waiting for it. */
  private others(): Fiber[] {
    const around = new Set<Fiber>()
    for (let { fiber } = this.ctx; !around.has(fiber); fiber = fiber.parent.fiber) around.add(fiber)
    return [...this.ctx.registry.values()].flatMap(({ fibers }) => [...fibers]).filter(fiber => !around.has(fiber))
  }
}

export default RollCall
