/** After a reload: is what a retired generation created gone? Proven by a forced garbage collection, never assumed. */
import { url as inspectorUrl } from 'node:inspector'
import { now } from '../guard/clock.ts'
import { attempt } from '../guard/contain.ts'
import { Collector, pause } from './collect.ts'
import type { Generation } from './creators.ts'
import { disableEnteredAgain } from './disabling.ts'
import { type Ledger, type LedgerEntry, openIn } from './ledger.ts'
import { outside } from '../guard/outside.ts'
import type { AuditReport, Retainer, SharedStorage } from '../report/report.ts'
import type { Leaks } from './leaks.ts'
import { firstLocation, type Location } from '../report/script.ts'

/** A generation that no longer serves, held weakly. */
export interface Retired extends Generation {
  /** The reload that retired it. */
  reload: number
  name: string
  /** Per instance: its fiber and its services. */
  instances: WeakRef<object>[][]
  storages: LedgerEntry[]
  /** Where the storages were created that it left enabled. */
  forgotten: Location[]
  /** The storages that have become those of others. */
  shared: SharedStorage[]
  /** Resolves when its drain ended, for one that was abandoned. */
  abandoned: Promise<unknown> | undefined
  /** Whether its code serves again, in other instances: after a rollback. What it runs then is not left over. */
  serves: boolean
}

/** What the auditor needs to know of the harness around it. */
export interface AuditorParts {
  ledger: Ledger
  leaks: Leaks
  /** Whether to look without being asked, and the heap in MB above which that waits for a quiet moment. */
  limits: { audit: boolean; auditHeap: number }
  /** Resolves when no reload runs: a collection blocks the process, which then would be in somebody's way. */
  idle(): Promise<void>
  /** Takes out of a generation's storages those that living ones have entered by now. */
  leaveShared(retired: Retired): void
  report(report: AuditReport): void
  /** Told when a look has to wait for a quiet moment, with the size of the heap in MB. */
  waits(megabytes: number): void
  /** Told of an error inside a look; the next one is tried all the same. */
  failed(error: unknown): void
}

/**
 * Milliseconds before each look. The first look clears what is clean; the others wait out what is merely slow (a socket
 * that closes, a continuation that unwinds), so that only what stays is called retained.
 */
const LOOKS = [0, 0, 50, 250, 1000]
/** So many looks, and milliseconds since the first, are enough for that verdict where the looks have to wait. */
const ENOUGH = { looks: 3, ms: 1300 }

/** So many generations are remembered that nobody has looked at, where audits are switched off. */
const REMEMBERED = 100

/** Where nothing else is found and an inspector is attached: the debugger has it, and not the harness. */
const INSPECTOR: Retainer = { what: 'console of the attached inspector, if it was logged there' }

/** So many open runs of one storage are named. */
const NAMED = 5

/** Audits retired generations, one garbage collection for all that wait. */
export class Auditor {
  readonly #around: AuditorParts
  /** Generations without a final verdict, with the last one that was reported. */
  readonly #open = new Map<Retired, AuditReport['outcome'] | undefined>()
  #running: Promise<void> | undefined
  /** The run that follows; what is added before it begins is looked at by it. */
  #next: Promise<void> | undefined
  /** How many have asked, who would not like to wait for a quiet moment. */
  #asked = 0
  readonly #collector: Collector
  #stopped = false

  constructor(around: AuditorParts) {
    this.#around = around
    const { limits, waits } = around
    this.#collector = new Collector(limits.auditHeap, () => this.#asked > 0 || this.#stopped, waits)
  }

  /** Takes over a generation that a reload has retired; its verdict is reported when it is known. */
  add(retired: Retired): void {
    this.#open.set(retired, undefined)
    const look = () => void (this.#around.limits.audit && this.#run())
    void retired.abandoned?.then(() => {
      retired.abandoned = undefined
      look()
    })
    look()
    const [oldest] = this.#open.keys()
    if (!this.#around.limits.audit && this.#open.size > REMEMBERED) this.#open.delete(oldest!)
  }

  /** Generations whose drain was abandoned and goes on. */
  abandoned(): Retired[] {
    return [...this.#open.keys()].filter(({ abandoned }) => abandoned !== undefined)
  }

  /** Generations without a final verdict. */
  unsettled(): Retired[] {
    return [...this.#open.keys()]
  }

  /** Looks now at every generation that has no final verdict; resolves when each has been reported on. */
  async run(): Promise<void> {
    this.#asked++
    try {
      await this.#run()
    } finally {
      this.#asked--
    }
  }

  /** Reports nothing from now on. */
  stop(): void {
    this.#stopped = true
    this.#open.clear()
  }

  #run(): Promise<void> {
    return (this.#next ??= outside(() => this.#after(this.#running).catch(error => this.#around.failed(error))))
  }

  async #after(running: Promise<void> | undefined): Promise<void> {
    await running
    this.#running = this.#next
    this.#next = undefined
    let waiting = [...this.#open.keys()]
    const start = now()
    for (const [look, ms] of LOOKS.entries()) {
      if (!this.#isWorthALook(waiting, look, now() - start)) break
      await pause(ms)
      await this.#around.idle()
      await this.#collector.quiet()
      await this.#around.idle()
      waiting = await this.#look(waiting, look)
    }
    for (const retired of waiting)
      this.#try(() => this.#verdict(retired, 'retained', this.#try(() => this.#retainers(retired)) ?? []))
  }

  /** @returns the generations that are not settled. An ordinary collection may have shown what a forced one would. */
  async #look(waiting: Retired[], look: number): Promise<Retired[]> {
    const { ledger } = this.#around
    const unsettled = () => waiting.filter(retired => !this.#try(() => this.#settled(retired)))
    // In a job of its own: what a WeakRef has shown is kept until the job ends.
    ledger.sweep()
    if (look > 0) ledger.formatSites()
    for (const retired of waiting) this.#try(() => this.#tidy(retired))
    this.#around.leaks.letGo()
    await pause(0)
    waiting = unsettled()
    if (waiting.length === 0) return waiting
    await pause(0)
    this.#collector.collect()
    await pause(0)
    return unsettled()
  }

  /** What one generation throws does not spoil the look for the others. */
  #try<T>(look: () => T): T | undefined {
    return attempt(look, error => {
      this.#around.failed(error)
      return undefined
    })
  }

  /** Leaves to others what they use, and disables what the old code has entered again. */
  #tidy(retired: Retired): void {
    if (retired.abandoned) return
    this.#around.leaveShared(retired)
    for (const { created } of disableEnteredAgain(retired.storages))
      if (created && !retired.forgotten.includes(created)) retired.forgotten.push(created)
  }

  /** Those that were called retained before are no reason to block the process at every reload that follows. */
  #isWorthALook(waiting: Retired[], look: number, ms: number): boolean {
    if (this.#stopped || waiting.length === 0) return false
    if (look >= ENOUGH.looks && ms >= ENOUGH.ms) return false
    return look < 2 || this.#asked > 0 || waiting.some(retired => this.#open.get(retired) !== 'retained')
  }

  /** Reports what needs no further look: gone, or not to be judged before its drain ends. */
  #settled(retired: Retired): boolean {
    if (retired.abandoned) {
      this.#verdict(retired, 'pending', openRuns(retired))
      return true
    }
    if (!isGone(retired) || this.leftBy(retired).length > 0) return false
    // Of one that had nothing to prove it is only worth a word when it had left something running.
    const isNews = retired.instances.length + retired.storages.length > 0 || this.#open.get(retired) === 'retained'
    if (isNews) this.#verdict(retired, 'collected', [])
    this.#open.delete(retired)
    this.#around.ledger.forget(retired.storages)
    return true
  }

  /** What it left running; and, where something of it lives on, what may carry that. */
  #retainers(retired: Retired): Retainer[] {
    const { leaks } = this.#around
    const left = this.leftBy(retired)
    if (isGone(retired)) return left
    const carriers = [...openRuns(retired), ...leaks.startedInside(retired.storages)]
    if (!retired.serves) carriers.push(...leaks.startedFor(retired))
    const found = carriers.reduce((all, one) => (all.some(other => isSame(one, other)) ? all : [...all, one]), left)
    return found.length === 0 && inspectorUrl() ? [INSPECTOR] : found
  }

  /** What a generation started and has not ended. */
  leftBy(retired: Retired): Retainer[] {
    return retired.serves ? [] : this.#around.leaks.leftBy(retired)
  }

  #verdict(retired: Retired, outcome: AuditReport['outcome'], retainers: Retainer[]): void {
    if (this.#stopped || this.#open.get(retired) === outcome) return
    this.#open.set(retired, outcome)
    const { reload, module, name, generation, instances, storages, forgotten, shared } = retired
    const stores = storages.map(({ stores }) => stores.count())
    this.#around.report({
      type: 'audit',
      reload,
      module,
      name,
      generation,
      outcome,
      ...(retired.serves && { serves: true as const }),
      instances: { created: instances.length, collected: instances.filter(areGone).length },
      storages: { created: storages.length, collected: storages.filter(({ storage }) => areGone([storage])).length },
      stores: {
        created: stores.reduce((sum, { created }) => sum + created, 0),
        collected: stores.reduce((sum, { collected }) => sum + collected, 0)
      },
      forgotten,
      shared,
      retainers
    })
  }
}

/** What has not settled in its storages. */
function openRuns({ storages }: Retired): Retainer[] {
  return openIn(storages, NAMED).map(({ label, opened }) => ({
    what: `run of "${label}" that has not settled`,
    location: firstLocation(opened.join('\n'))
  }))
}

function isGone({ instances, storages }: Retired): boolean {
  return areGone([...instances.flat(), ...storages.map(({ storage }) => storage)])
}

function areGone(refs: WeakRef<object>[]): boolean {
  return refs.every(ref => ref.deref() === undefined)
}

function isSame(a: Retainer, b: Retainer): boolean {
  const [x, y] = [a.location, b.location]
  return a.what === b.what && x?.file === y?.file && x?.line === y?.line && x?.column === y?.column
}
