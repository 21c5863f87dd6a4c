/** After a reload: is what a retired generation created gone? Proven by a forced garbage collection, never assumed. */
import { AsyncResource } from 'node:async_hooks'
import { setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'
import type { Generation, Ledger, LedgerEntry } from './ledger.ts'
import type { AuditReport } from './report.ts'

/** A generation that no longer serves, held weakly. */
export interface Retired extends Generation {
  /** The reload that retired it. */
  reload: number
  name: string
  /** Per instance: its fiber and its services. */
  instances: WeakRef<object>[][]
  storages: LedgerEntry[]
  /** Resolves when its drain ended, for one that was abandoned. */
  abandoned: Promise<unknown> | undefined
}

/**
 * Milliseconds before each look. The first look clears what is clean; the others wait out what is merely slow (a socket
 * that closes, a continuation that unwinds), so that only what stays is called retained.
 */
const LOOKS = [0, 0, 50, 250, 1000]

/** A context of nobody's: what runs in a boundary would itself keep that boundary's store. */
const clean = new AsyncResource('harness-hmr.audit')

/** Audits retired generations, one garbage collection for all that wait. */
export class Auditor {
  readonly #ledger: Ledger
  readonly #idle: () => Promise<void>
  readonly #report: (report: AuditReport) => void
  /** Generations without a final verdict, with the last one that was reported. */
  readonly #open = new Map<Retired, AuditReport['outcome'] | undefined>()
  #running: Promise<void> | undefined

  /** `idle` resolves when no reload runs: a collection blocks the process, which then would be in somebody's way. */
  constructor(ledger: Ledger, idle: () => Promise<void>, report: (report: AuditReport) => void) {
    this.#ledger = ledger
    this.#idle = idle
    this.#report = report
  }

  /** Takes over a generation that a reload has retired; its verdict is reported when it is known. */
  add(retired: Retired): void {
    this.#open.set(retired, undefined)
    void retired.abandoned?.then(() => {
      retired.abandoned = undefined
      return this.run()
    })
    void this.run()
  }

  /** Generations whose drain was abandoned and goes on. */
  abandoned(): Retired[] {
    return [...this.#open.keys()].filter(({ abandoned }) => abandoned !== undefined)
  }

  /** Looks at every generation that has no final verdict; resolves when each has been reported on. */
  run(): Promise<void> {
    // A generation that is added while a run is under way is looked at by the run that follows it.
    return (this.#running = clean.runInAsyncScope(() => this.#after(this.#running)))
  }

  async #after(running: Promise<void> | undefined): Promise<void> {
    await running
    let waiting = [...this.#open.keys()]
    for (const ms of LOOKS) {
      if (waiting.length === 0) return
      await pause(ms)
      await this.#idle()
      // In a job of its own: what a WeakRef has shown is kept until the job ends.
      this.#ledger.sweep()
      await pause(0)
      collectGarbage()
      await pause(0)
      waiting = waiting.filter(retired => !this.#settled(retired))
    }
    for (const retired of waiting) this.#verdict(retired, 'retained')
  }

  /** Reports what needs no further look: gone, or not to be judged before its drain ends. */
  #settled(retired: Retired): boolean {
    if (retired.abandoned) {
      this.#verdict(retired, 'pending')
      return true
    }
    if ([...retired.instances.flat(), ...retired.storages.map(({ storage }) => storage)].some(ref => ref.deref()))
      return false
    this.#verdict(retired, 'collected')
    this.#open.delete(retired)
    this.#ledger.forget(retired.storages)
    return true
  }

  #verdict(retired: Retired, outcome: AuditReport['outcome']): void {
    if (this.#open.get(retired) === outcome) return
    this.#open.set(retired, outcome)
    const { reload, module, name, generation, instances, storages } = retired
    const gone = (refs: WeakRef<object>[]) => refs.every(ref => ref.deref() === undefined)
    this.#report({
      type: 'audit',
      reload,
      module,
      name,
      generation,
      outcome,
      instances: { created: instances.length, collected: instances.filter(gone).length },
      storages: { created: storages.length, collected: storages.filter(({ storage }) => gone([storage])).length }
    })
  }
}

let gc: (() => void) | undefined

/** Forces a full garbage collection without a start-up flag; blocks for about 1 ms per MB of live heap. */
export function collectGarbage(): void {
  if (!gc) {
    setFlagsFromString('--expose-gc')
    gc = runInNewContext('gc') as () => void
    setFlagsFromString('--no-expose-gc')
  }
  gc()
}

/** A turn of the event loop: within the turn in which a WeakRef was read, its target is kept alive. */
function pause(ms: number): Promise<void> {
  return new Promise(resolve => {
    if (ms === 0) setImmediate(resolve)
    else setTimeout(resolve, ms).unref()
  })
}
