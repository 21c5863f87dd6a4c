/** Every AsyncLocalStorage that the harness' modules create, by module and generation, held weakly. */
import * as asyncHooks from 'node:async_hooks'
import { AsyncLocalStorage } from 'node:async_hooks'
import { types } from 'node:util'
import {
  type Boundary,
  type BoundaryScope,
  captureSite,
  enter,
  frames,
  isPending,
  SCOPE_SLOT,
  type ScopeListener,
  type Site
} from './scope.ts'
import type { Exports } from './host.ts'
import { locate, scriptsOnStack, type Location } from './script.ts'

/** One generation of a module. */
export interface Generation {
  module: string
  generation: number
}

/** One storage, held weakly. */
export interface LedgerEntry {
  storage: WeakRef<AsyncLocalStorage<unknown>>
  /** The scope that enters the storage, when there is one. */
  scope: WeakRef<BoundaryScope<never>> | undefined
  /** The modules on the stack that created it, innermost first. */
  creators: Generation[]
  /** The innermost place of ours on that stack. */
  created: Location | undefined
  /** Runs of a storage that no scope of ours enters, until they are seen to have settled. */
  runs: PendingRun[]
}

interface PendingRun {
  promise: Promise<unknown>
  site: Site
  since: number
}

/** Among so many runs of one storage the settled ones are looked for. */
const RUNS_SWEPT_AT = 64

/** The process-wide slot holds one function; several harnesses in a process (tests, mostly) share it. */
const ledgers = new Set<Ledger>()
const announce: ScopeListener = (scope, storage) => {
  for (const ledger of ledgers) ledger.record(storage, scope)
}

/** Knows which storages a generation created, so that they can be disabled, awaited and proven collected. */
export class Ledger {
  readonly #isOurs: (module: string) => boolean
  readonly #isProvider: (module: string) => boolean
  readonly #entries = new Set<LedgerEntry>()
  readonly #known = new WeakMap<AsyncLocalStorage<unknown>, LedgerEntry>()
  readonly #scopes = new Set<WeakRef<BoundaryScope<never>>>()
  readonly #builtin: Exports

  /** `isOurs` tells the modules of this harness from another's, `isProvider` those that a storage can belong to. */
  constructor(isOurs: (module: string) => boolean, isProvider: (module: string) => boolean) {
    this.#isOurs = isOurs
    this.#isProvider = isProvider
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

  /** What a module of ours gets for a builtin specifier; `undefined` where the builtin itself will do. */
  builtin(specifier: string): Exports | undefined {
    return specifier === 'node:async_hooks' || specifier === 'async_hooks' ? this.#builtin : undefined
  }

  /** Notes a storage that is being created right now. A scope's storage comes twice: when created, and when announced. */
  record(storage: AsyncLocalStorage<unknown>, scope?: BoundaryScope<never>): void {
    if (scope) this.#scopes.add(new WeakRef(scope))
    const known = this.#known.get(storage)
    if (known) {
      if (scope) known.scope = new WeakRef(scope)
      return
    }
    const stack = scriptsOnStack().filter(({ file }) => this.#isOurs(file))
    if (stack.length === 0) return
    const [innermost] = stack
    const entry: LedgerEntry = {
      storage: new WeakRef(storage),
      scope: scope && new WeakRef(scope),
      creators: stack.map(({ file, version }) => ({ module: file, generation: version })),
      created: innermost && locate(`${innermost.file}?v=${innermost.version}`, innermost.line, innermost.column),
      runs: []
    }
    this.#known.set(storage, entry)
    this.#entries.add(entry)
  }

  /** The storages that belong to a generation and are still alive, or not yet known to be collected. */
  entriesOf({ module, generation }: Generation): LedgerEntry[] {
    return [...this.#entries].filter(entry => {
      const owner = this.#ownerOf(entry)
      return owner.module === module && owner.generation === generation
    })
  }

  /** Every storage that is alive now. */
  live(): LedgerEntry[] {
    return [...this.#entries].filter(({ storage }) => storage.deref() !== undefined)
  }

  /** Notes that a storage was entered by an operation that has returned a Promise. */
  entered(storage: AsyncLocalStorage<unknown>, promise: Promise<unknown>, site: Site): void {
    const { runs, scope } = this.#known.get(storage) ?? {}
    // A scope knows its boundaries itself.
    if (!runs || scope) return
    runs.push({ promise, site, since: performance.now() })
    // Looked at in batches: most have settled by then.
    if (runs.length % RUNS_SWEPT_AT === 0) sweepRuns(runs)
  }

  /** Makes every scope notice which of its boundaries have settled: it holds those, and what opened them, until it looks. */
  sweep(): void {
    for (const ref of this.#scopes) {
      const scope = ref.deref()
      if (!scope || scope.state === 'disposed') this.#scopes.delete(ref)
      else scope.boundaries()
    }
    for (const { runs } of this.#entries) sweepRuns(runs)
  }

  /** Forgets entries whose storage is collected and was reported so. */
  forget(entries: Iterable<LedgerEntry>): void {
    for (const entry of entries) this.#entries.delete(entry)
  }

  /** The nearest provider module on the creation stack, not the library module that happens to say `new`. */
  #ownerOf({ creators }: LedgerEntry): Generation {
    return creators.find(({ module }) => this.#isProvider(module)) ?? creators[0]!
  }
}

/** What is open in a generation's storages: boundaries of scopes, and pending runs of any other AsyncLocalStorage. */
export function openIn(entries: LedgerEntry[]): Boundary[] {
  return entries.flatMap(({ scope, runs, storage }) => {
    const alive = scope?.deref()
    if (alive) return alive.state === 'disposed' ? [] : alive.boundaries()
    const label = (storage.deref() as { name?: string } | undefined)?.name || 'AsyncLocalStorage.run()'
    return sweepRuns(runs).map(({ site, since }) => ({ label, age: performance.now() - since, opened: frames(site) }))
  })
}

function sweepRuns(runs: PendingRun[]): PendingRun[] {
  const pending = runs.filter(({ promise }) => isPending(promise))
  runs.splice(0, runs.length, ...pending)
  return runs
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
      ledger.record(this)
    }

    override run<R>(store: T, callback: (...args: any[]) => R, ...args: any[]): R {
      const result = enter({ run: (_, operation) => super.run(store, operation) }, store, () => callback(...args))
      if (types.isPromise(result)) ledger.entered(this, result, captureSite(this.run))
      return result
    }
  }
  return Object.defineProperty(Recorded, 'name', { value: 'AsyncLocalStorage' })
}
