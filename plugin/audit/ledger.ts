/** Every AsyncLocalStorage that the harness' modules create, by module and generation, held weakly. */
import * as asyncHooks from 'node:async_hooks'
import { AsyncLocalStorage } from 'node:async_hooks'
import { types } from 'node:util'
import { now } from '../guard/clock.ts'
import { enter } from '../context/enter.ts'
import { isPending } from '../context/promise-state.ts'
import { captureSite, frames, type Site } from '../context/site.ts'
import { aside, attempt, read } from '../guard/contain.ts'
import { type Creators, type Generation, generationKey, isSameGeneration } from './creators.ts'
import { type Boundary, type BoundaryScope, SCOPE_SLOT, type ScopeListener } from '../scope.ts'
import type { Exports } from '../modules/exports.ts'
import type { Count } from '../report/report.ts'
import { type Location, locateScript, type Script, scriptsOf } from '../report/script.ts'

/** One storage, held weakly. */
export interface LedgerEntry {
  storage: WeakRef<AsyncLocalStorage<unknown>>
  /** The scope that enters the storage, when there is one. */
  scope: WeakRef<BoundaryScope<never>> | undefined
  /** The scripts on the stack that created it, innermost first. */
  creators: Script[]
  /** The innermost of our places on that stack. */
  created: Location | undefined
  /** Runs of a storage that none of our scopes enters, until they are seen to have settled. */
  runs: PendingRun[]
  /** Who began them: by storage, since several may be entered by operations that return one and the same Promise. */
  sites: WeakMap<Promise<unknown>, Site>
  /** Among so many runs the settled ones are looked for. */
  sweepRunsAt: number
  stores: Stores
  /** Whether it was entered and not disabled since. */
  enabled: boolean
  /** How often it was entered, and by whom, as far as that was looked at. */
  entered: number
  users: Map<string, Generation>
  /** Whose it has become, when its creator retired and it was shared. */
  owner: Generation | undefined
}

/** Held weakly, and its site by the promise: neither they nor the functions on its stack are ours to keep. */
interface PendingRun {
  promise: WeakRef<Promise<unknown>>
  since: number
}

/** What storages return outside of every run, where that is not `undefined`. */
const defaults = new WeakMap<AsyncLocalStorage<unknown>, unknown>()

/** Among so many runs of one storage the settled ones are looked for, or among twice as many as went on then. */
const RUNS_SWEPT_AT = 64
/** So many times it is noted who enters a storage, and then once in as many: a stack costs as much as twenty runs. */
const ENTRIES_NOTED = 64
/** So many pending runs of a storage are asked who began them. */
const RUNS_ASKED = 64
/** Among so many storages those that are gone are looked for. */
const PRUNED_AT = 64

/** The process-wide slot holds one function; several harnesses in a process (tests, mostly) share it. */
const ledgers = new Set<Ledger>()
const announce: ScopeListener = (scope, storage) => {
  const entries = [...ledgers].flatMap(ledger => ledger.aside(() => ledger.record(storage, scope)) ?? [])
  return value => {
    for (const { stores } of entries) stores.add(value)
  }
}

/** Knows which storages a generation created, so that they can be disabled, awaited and proven collected. */
export class Ledger {
  readonly #creators: Creators
  readonly #entries = new Set<LedgerEntry>()
  readonly #known = new WeakMap<AsyncLocalStorage<unknown>, LedgerEntry>()
  readonly #scopes = new Set<WeakRef<BoundaryScope<never>>>()
  readonly #builtin: Exports
  /** Takes notes beside an operation of the user's. */
  readonly aside: ReturnType<typeof aside>
  #pruneAt = PRUNED_AT

  /** `failed` is told of an error in what is noted while the user's code runs; that goes on. */
  constructor(creators: Creators, failed: (error: unknown) => void) {
    this.#creators = creators
    this.aside = aside(failed)
    const names = { ...asyncHooks, AsyncLocalStorage: recordedBy(this) }
    this.#builtin = { ...names, default: names }
  }

  /** Starts to listen to scopes that announce themselves; returns how to stop. */
  listen(): () => void {
    ledgers.add(this)
    const slot = globalThis as Record<symbol, unknown>
    slot[SCOPE_SLOT] = announce
    return () => {
      ledgers.delete(this)
      if (ledgers.size === 0 && slot[SCOPE_SLOT] === announce) delete slot[SCOPE_SLOT]
    }
  }

  /** What one of our modules gets for a builtin specifier; `undefined` where the builtin itself will do. */
  builtin(specifier: string): Exports | undefined {
    return specifier === 'node:async_hooks' || specifier === 'async_hooks' ? this.#builtin : undefined
  }

  /** Notes a storage that is being created right now. A scope's storage comes twice: when created, and when announced. */
  record(storage: AsyncLocalStorage<unknown>, scope?: BoundaryScope<never>): LedgerEntry | undefined {
    const known = this.#known.get(storage)
    const creators = known?.creators ?? this.#creators.onStack()
    const [innermost] = creators
    if (!innermost) return undefined
    const announced = scope && new WeakRef(scope)
    if (announced) this.#scopes.add(announced)
    if (known) {
      if (announced) known.scope = announced
      return known
    }
    const entry: LedgerEntry = {
      storage: new WeakRef(storage),
      scope: announced,
      creators,
      created: locateScript(innermost),
      runs: [],
      sites: new WeakMap(),
      sweepRunsAt: RUNS_SWEPT_AT,
      stores: new Stores(),
      enabled: false,
      entered: 0,
      users: new Map(),
      owner: undefined
    }
    this.#known.set(storage, entry)
    this.#entries.add(entry)
    if (this.#entries.size >= this.#pruneAt) this.#prune()
    return entry
  }

  /** The storages that belong to a generation and are still alive, or not yet known to be collected. */
  entriesOf(generation: Generation): LedgerEntry[] {
    return [...this.#entries].filter(entry => {
      const owner = this.ownerOf(entry)
      return owner !== undefined && isSameGeneration(owner, generation)
    })
  }

  /** The generation that a storage belongs to. */
  ownerOf({ creators, owner }: LedgerEntry): Generation | undefined {
    return owner ?? this.#creators.ownerOf(creators)
  }

  /** Whether a module has ever had live plugins. */
  isProvider(module: string): boolean {
    return this.#creators.isProvider(module)
  }

  /** The generations that have entered a storage; a scope is its provider's, whoever enters it. */
  usersOf(entry: LedgerEntry): Generation[] {
    const { users, sites, scope } = entry
    if (scope) return []
    for (const { promise } of sweepRuns(entry).slice(0, RUNS_ASKED)) {
      const alive = promise.deref()
      const site = alive && sites.get(alive)
      // An `Error.prepareStackTrace` of the user's may throw.
      if (site) this.aside(() => this.#uses(users, scriptsOf(site)))
    }
    return [...users.values()]
  }

  #uses(users: LedgerEntry['users'], scripts: readonly Pick<Script, 'file' | 'version'>[]): void {
    const user = this.#creators.ownerOf(scripts)
    if (user) users.set(generationKey(user), user)
  }

  /** Every storage that is alive now. */
  live(): LedgerEntry[] {
    return [...this.#entries].filter(({ storage }) => storage.deref() !== undefined)
  }

  /** The storages that what runs now is inside of. */
  entered(): LedgerEntry[] {
    const { getStore } = AsyncLocalStorage.prototype
    return [...this.#entries].filter(entry => {
      const storage = entry.storage.deref()
      const store: unknown = storage && getStore.call(storage)
      return store !== undefined && store !== defaults.get(storage!)
    })
  }

  /** Notes what a storage is entered with. */
  enters(storage: AsyncLocalStorage<unknown>, store: unknown): void {
    const entry = this.#known.get(storage)
    // Some lines leave a `run` by entering what was there before it: nothing, at the outermost.
    if (!entry || store === undefined) return
    entry.enabled = true
    if (!entry.scope && (entry.entered++ < ENTRIES_NOTED || entry.entered % ENTRIES_NOTED === 0))
      this.#uses(entry.users, this.#creators.onStack())
    // What a scope enters its storage with is its own; it tells what that stands for.
    if (!entry.scope) entry.stores.add(store)
  }

  /** Notes that a storage was disabled. */
  disabled(storage: AsyncLocalStorage<unknown>): void {
    const entry = this.#known.get(storage)
    if (entry) entry.enabled = false
  }

  /** Notes that a storage was entered, through `run`, by an operation that has returned a Promise. */
  pends(storage: AsyncLocalStorage<unknown>, promise: Promise<unknown>, run: Function): void {
    const entry = this.#known.get(storage)
    // A scope knows its boundaries itself.
    if (!entry || entry.scope) return
    const { runs, sites } = entry
    sites.set(promise, captureSite(run))
    runs.push({ promise: new WeakRef(promise), since: now() })
    // Looked at in batches: most have settled by then.
    if (runs.length < entry.sweepRunsAt) return
    sweepRuns(entry)
    entry.sweepRunsAt = Math.max(RUNS_SWEPT_AT, runs.length * 2)
  }

  /** Makes every scope notice which of its boundaries have settled: it holds those, and what opened them, until it looks. */
  sweep(): void {
    this.#prune()
    for (const ref of this.#scopes) void ref.deref()?.size
    for (const entry of this.#entries) sweepRuns(entry)
  }

  /** Forgets storages and scopes that are gone: a generation that goes on may make one for each request, or for each of its restarts. */
  #prune(): void {
    for (const entry of this.#entries) if (entry.storage.deref() === undefined) this.#entries.delete(entry)
    for (const ref of this.#scopes) if ((ref.deref()?.state ?? 'disposed') === 'disposed') this.#scopes.delete(ref)
    this.#pruneAt = Math.max(PRUNED_AT, this.#entries.size * 2)
  }

  /**
   * Turns the stacks of everything open into text. Until then V8 keeps the functions and receivers of their frames, which
   * may be the only ones to keep an old instance; it costs a tenth of a millisecond each.
   */
  formatSites(): void {
    openIn([...this.#entries])
  }

  /** Forgets entries whose storage is collected and was reported so. */
  forget(entries: Iterable<LedgerEntry>): void {
    for (const entry of entries) this.#entries.delete(entry)
  }
}

/** What was entered and never disabled, or disposed, by those whose it is. */
export function leftEnabled(entries: LedgerEntry[]): LedgerEntry[] {
  return entries.filter(({ scope, enabled, stores }) => {
    const alive = scope?.deref()
    // A scope that was installed from npm enters a storage that we do not see.
    return alive ? alive.state !== 'disposed' && (enabled || stores.count().created > 0) : enabled
  })
}

/**
 * What is open in a generation's storages: boundaries of scopes, and pending runs of any other AsyncLocalStorage; the
 * oldest `limit` of each storage, since the first look at each is expensive.
 */
export function openIn(entries: LedgerEntry[], limit = Infinity): Boundary[] {
  return entries.flatMap(entry => {
    const { scope, sites, storage } = entry
    const alive = scope?.deref()
    if (alive) return alive.state === 'disposed' ? [] : boundariesOf(alive, limit)
    const name = read(storage.deref(), 'name')
    const label = typeof name === 'string' && name ? name : 'AsyncLocalStorage.run()'
    const pending = sweepRuns(entry).slice(0, limit)
    return pending.map(({ promise, since }) => {
      const alive = promise.deref()
      const opened = attempt(
        () => frames(alive && sites.get(alive)),
        () => []
      )
      return { label, since, age: now() - since, opened }
    })
  })
}

/** A scope that was installed from npm may be of a version that lets its user's label throw. */
function boundariesOf(scope: BoundaryScope<never>, limit: number): Boundary[] {
  return attempt(
    () => scope.boundaries(limit),
    () => []
  )
}

/** How many are open in the same sense. */
export function countOpen(entries: LedgerEntry[]): number {
  return entries.reduce((total, entry) => total + (entry.scope?.deref()?.size ?? sweepRuns(entry).length), 0)
}

function sweepRuns({ runs, sites }: LedgerEntry): PendingRun[] {
  const pending = runs.filter(({ promise }) => {
    const alive = promise.deref()
    if (!alive) return false
    if (isPending(alive)) return true
    sites.delete(alive)
    return false
  })
  runs.splice(0, runs.length, ...pending)
  return runs
}

/** The objects that a storage has carried: how many, and which of them are alive. */
class Stores {
  readonly #known = new WeakSet<object>()
  #alive: WeakRef<object>[] = []
  #created = 0
  #sweepAt = 64

  add(store: unknown): void {
    if (typeof store !== 'object' || store === null || this.#known.has(store)) return
    this.#known.add(store)
    this.#created++
    this.#alive.push(new WeakRef(store))
    if (this.#alive.length < this.#sweepAt) return
    this.#sweep()
    this.#sweepAt = Math.max(64, this.#alive.length * 2)
  }

  /** To be asked in another job than the collection: what is seen alive is kept until the job ends. */
  count(): Count {
    this.#sweep()
    return { created: this.#created, collected: this.#created - this.#alive.length }
  }

  #sweep(): void {
    this.#alive = this.#alive.filter(ref => ref.deref() !== undefined)
  }
}

/**
 * The AsyncLocalStorage of the harness' modules: a subclass, one for all of them, since the stack tells who calls it. Its
 * `run` leaves no residue in the caller, so that a retired one is collected although a long-lived loop has entered it.
 */
function recordedBy(ledger: Ledger): typeof AsyncLocalStorage {
  class Recorded<T> extends AsyncLocalStorage<T> {
    // Also what another copy or a package outside of the harness has made.
    static override [Symbol.hasInstance](value: unknown): boolean {
      return Object.prototype.isPrototypeOf.call(
        this === Recorded ? AsyncLocalStorage.prototype : this.prototype,
        Object(value)
      )
    }

    constructor(...args: []) {
      super(...args)
      const [options] = args as [{ defaultValue?: unknown }?]
      if (options?.defaultValue !== undefined) defaults.set(this, options.defaultValue)
      ledger.aside(() => ledger.record(this))
    }

    override run<R>(store: T, callback: (...args: any[]) => R, ...args: any[]): R {
      ledger.aside(() => ledger.enters(this, store))
      const result = enter({ run: (_, operation) => super.run(store, operation) }, store, () => callback(...args))
      if (types.isPromise(result)) ledger.aside(() => ledger.pends(this, result, this.run))
      return result
    }

    override enterWith(store: T): void {
      ledger.aside(() => ledger.enters(this, store))
      super.enterWith(store)
    }

    override disable(): void {
      ledger.disabled(this)
      super.disable()
    }
  }
  return Object.defineProperty(Recorded, 'name', { value: 'AsyncLocalStorage' })
}
