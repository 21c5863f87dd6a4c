/** Who is told of an event, and who of them has not ended: drivers that park before a reload are waited for by name. */
import { thrownBy } from '../guard/contain.ts'
import type { Fiber } from '../cordis/cordis.ts'
import type { Fibers } from '../cordis/fibers.ts'
import { listenersOf } from '../cordis/listeners.ts'

/** A driver that a listener waits for. */
interface Driver {
  name: string
  /** What it has to end first. */
  step: string | undefined
}

/** A listener that has not ended. */
export interface Pending {
  /** Whose it is. */
  fiber: Fiber
  /** Of whom it has said that it waits for them; those that have parked are gone from here. */
  drivers: Set<Driver>
}

/** Says whom a listener waits for, until `parked` settles, and what that has to end first. */
export type WaitsFor = (driver: string, parked: Promise<unknown>, step?: string) => void

/** Calls every listener of an event, and resolves when all have ended, with what they threw, by the event's name. */
export async function tell(
  { root }: Fibers,
  event: 'harness-hmr/before-reload' | 'harness-hmr/after-reload',
  payload: (waitsFor: WaitsFor) => unknown,
  pending = new Set<Pending>()
): Promise<unknown[]> {
  const calls = listenersOf(root, event).map(async ({ fiber, call }): Promise<unknown[]> => {
    const one: Pending = { fiber, drivers: new Set() }
    pending.add(one)
    try {
      await call(payload((name, parked, step) => waitFor(one, name, parked, step)))
      return []
    } catch (error) {
      return [thrownBy(event, error)]
    } finally {
      pending.delete(one)
    }
  })
  return (await Promise.all(calls)).flat()
}

function waitFor({ drivers }: Pending, name: string, parked: Promise<unknown>, step: string | undefined): void {
  const driver: Driver = { name, step }
  drivers.add(driver)
  const isParked = () => void drivers.delete(driver)
  // What it fails with is for whoever waits for it.
  void Promise.resolve(parked).then(isParked, isParked)
}
