/** Which fibers a module's plugins own, and how to put another version of a plugin in their place. */
import { Applied } from './applied.ts'
import { attempt, contain, read } from '../guard/contain.ts'
import { type Context, type Fiber, FiberState, type Implementation, isolate } from './cordis.ts'
import { type Exports, isReference } from '../modules/exports.ts'
import { type Entry, fiberOf } from './loader.ts'
import { within } from '../guard/within.ts'

/** One application of an exported plugin, with all that is needed to apply its successor. */
export interface Instance {
  /** Id of the module that exports it. */
  module: string
  fiber: Fiber
  plugin: unknown
  /** The export that the plugin came from; `"*"` for a module that is a plugin itself (`export function apply`). */
  exported: string
  /** The row of a loader's that it runs for. */
  entry: Entry | undefined
}

/** The fibers of one root context. */
export class Fibers {
  readonly root: Context
  readonly #applied: Applied
  /** Where an instance was, and neither its successor nor itself could be applied again. */
  readonly #vacant = new Set<Instance>()
  /** The service that a fiber provides, or has provided. */
  readonly #services = new WeakMap<Fiber, string>()

  constructor(root: Context) {
    this.root = root
    this.#applied = new Applied(root.registry)
  }

  /** The instances of the plugins that a module exports, oldest first; also the places of those that are vacant. */
  instances(module: string, exports: Exports | undefined): Instance[] {
    const found = new Map<Fiber, Instance>()
    for (const [exported, value] of candidates(exports)) {
      for (const fiber of this.root.registry.get(value)?.fibers ?? []) {
        const applied = this.#applied.of(fiber)
        // A module that is a plugin itself may have been applied through the namespace of an earlier version.
        if (applied && (applied.plugin === value || (exported === '*' && isNamespace(applied.plugin))))
          found.set(fiber, { module, fiber, plugin: applied.plugin, exported, entry: ownEntry(fiber) })
      }
    }
    for (const vacant of this.#vacant) {
      // Its loader has filled the place by itself, or given it up.
      if (vacant.entry && (vacant.entry.fiber?.uid != null || isRemoved(vacant.entry))) this.#vacant.delete(vacant)
      else if (vacant.module === module) found.set(vacant.fiber, vacant)
    }
    return [...found.values()].toSorted((a, b) => (a.fiber.uid ?? 0) - (b.fiber.uid ?? 0))
  }

  /** The plugin that a fiber, or the place of one, was applied with. */
  pluginOf(fiber: Fiber): unknown {
    return this.#applied.of(fiber)?.plugin
  }

  /** Remembers the places of instances that are gone, so that the next version fills them. */
  vacate(instances: Instance[]): void {
    for (const instance of instances) {
      const { fiber } = instance
      this.#vacant.add(isPlace(fiber) ? instance : { ...instance, fiber: this.#placeOf(fiber) })
    }
  }

  /** What is left of a fiber in its place: the fiber itself, and so its instance, would be kept by that. */
  #placeOf(fiber: Fiber): Fiber {
    const { uid, state, parent } = fiber
    const name = this.nameOf(fiber) ?? fiber.name
    const applied = this.#applied.of(fiber)
    const place = {
      uid,
      state,
      parent,
      name,
      runtime: null,
      inject: {},
      dispose: async () => {},
      await: async () => Promise.reject(new Error(`provider "${name}" does not run`)),
      // Of no plugin that could refuse it: the next version will.
      update: (config: unknown) => void (applied && (applied.config = config))
    } as unknown as Fiber
    this.#applied.hand(fiber, place)
    this.#services.set(place, name)
    return place
  }

  /** The service that a fiber provides, also after it was disposed; else its plugin's name, if that says anything. */
  nameOf(fiber: Fiber): string | undefined {
    const [service] = this.provided(fiber)
    if (service) this.#services.set(fiber, service.name)
    const name = fiber.runtime?.name
    return this.#services.get(fiber) ?? (name === 'default' ? undefined : name)
  }

  /** Whether an instance is only a place; it counts as filled from now on. */
  fill(instance: Instance): boolean {
    return this.#vacant.delete(instance)
  }

  /** Every live fiber but the root's. */
  *all(): Iterable<Fiber> {
    for (const runtime of this.root.registry.values()) yield* runtime.fibers
  }

  /**
   * The same in the order of the composition, each before those below it; a reload keeps that order. With the places of
   * those that are vacant.
   */
  inOrder(): Fiber[] {
    const nth = (fiber: Fiber) => this.#applied.of(fiber)?.nth ?? Infinity
    const children = new Map<Fiber, Fiber[]>()
    const places = [...this.#vacant].map(({ fiber }) => fiber)
    for (const fiber of [...this.all(), ...places].toSorted((a, b) => nth(a) - nth(b))) {
      const siblings = children.get(fiber.parent.fiber) ?? []
      children.set(fiber.parent.fiber, siblings)
      siblings.push(fiber)
    }
    const below = (fiber: Fiber): Fiber[] => (children.get(fiber) ?? []).flatMap(child => [child, ...below(child)])
    return below(this.root.fiber)
  }

  /** The fibers outside of `fibers` that run on a service which those, or what depends on those, provide. */
  dependents(fibers: Iterable<Fiber>): Set<Fiber> {
    const going = new Set(fibers)
    const found = new Set<Fiber>()
    for (let size = -1; size !== going.size;) {
      size = going.size
      for (const fiber of this.all()) {
        if (going.has(fiber)) continue
        const uses = Object.keys(fiber.inject).some(name => isWithin(fiber.store?.[name]?.fiber, going))
        if (uses) found.add(fiber)
        if (uses || isWithin(fiber, going)) going.add(fiber)
      }
    }
    return found
  }

  /** The names of the services that `fibers` and the fibers below them provide. */
  services(fibers: ReadonlySet<Fiber>): string[] {
    const { store } = this.root.reflect
    return Object.getOwnPropertySymbols(store).flatMap(key => {
      const implementation = store[key]
      return implementation && isWithin(implementation.fiber, fibers) ? [implementation.name] : []
    })
  }

  /** The names of the services that `fibers` and the fibers below them run on. */
  uses(fibers: ReadonlySet<Fiber>): string[] {
    const within = [...this.all()].filter(fiber => isWithin(fiber, fibers))
    return [...new Set(within.flatMap(fiber => Object.keys(fiber.inject)))]
  }

  /** The services that a fiber itself provides. */
  provided(fiber: Fiber): { name: string; value?: unknown }[] {
    const { store } = this.root.reflect
    return Object.getOwnPropertySymbols(store).flatMap(key => (store[key]?.fiber === fiber ? [store[key]] : []))
  }

  /** The objects that stand for an instance: its fiber, and the services that it provides. */
  objects(fiber: Fiber): object[] {
    const values = this.provided(fiber).map(({ value }) => value)
    return [fiber, ...values.filter(isReference)]
  }

  /** The same, held weakly. */
  refs(fiber: Fiber): WeakRef<object>[] {
    return this.objects(fiber).map(object => new WeakRef(object))
  }

  /** Tells the harness of an event; what a listener throws is Cordis' to log. */
  emit(event: string, payload: unknown): void {
    try {
      this.root.emit(event, payload)
    } catch (error) {
      this.root.logger.error(error)
    }
  }

  /**
   * Takes away the services that fibers still provide though nobody waits for their end any longer, so that successors can.
   * The returned function is to be called when they have ended after all: Cordis then removes by name what is the
   * successor's by now, and it is put back.
   */
  evict(fibers: ReadonlySet<Fiber>): () => void {
    const { reflect } = this.root
    const evicted: [key: symbol, name: string][] = []
    for (const key of Object.getOwnPropertySymbols(reflect.store)) {
      const { fiber, name } = reflect.store[key]!
      if (!isWithin(fiber, fibers)) continue
      evicted.push([key, name])
      delete reflect.store[key]
    }
    return () => {
      for (const [key, name] of evicted) {
        const successor = [...this.all()].map(fiber => ownService(fiber, key, name)).find(Boolean)
        if (!successor || reflect.store[key]) continue
        reflect.store[key] = successor
        reflect.notify([name])
      }
    }
  }

  /** Disposes what fibers have created while they were unloading; Cordis would leave it behind. Returns what to say of it. */
  async clearLeftovers(fibers: Iterable<Fiber>, ms: number, signal?: AbortSignal): Promise<unknown[]> {
    const failures: unknown[] = []
    for (const fiber of fibers) {
      if (fiber.state !== FiberState.PENDING || fiber._disposables.length === 0) continue
      failures.push(new Error(`"${fiber.name}" created effects while it was unloading; they were disposed`))
      for (const dispose of fiber._disposables.clear()) {
        failures.push(...(await contain('disposer of an effect', dispose, { ms, signal })))
      }
    }
    return failures
  }

  /** Resolves when no fiber is loading or unloading. */
  settled(): Promise<void> {
    return settled(() => this.all())
  }

  /** Runs a failed fiber again; Cordis does so by itself only for a fiber that has not failed. */
  retry(fiber: Fiber): void {
    const config = this.#applied.of(fiber)?.config
    // What it throws again is its state.
    attempt(
      () => void fiber.update(config, true),
      () => {}
    )
  }

  /** Applies a plugin on a context. @throws what its config schema throws. */
  apply(parent: Context, plugin: unknown, config: unknown, getOuterStack?: () => string[]): Fiber {
    return withoutStack(() => parent.registry.plugin(plugin, config, getOuterStack).ctx.fiber)
  }

  /**
   * Applies a plugin where an instance was, with the config that is in force there. What holds the fiber that
   * `ctx.plugin()` returned has the new one in hand. `undefined` where the place is gone, or was given up by who has it.
   */
  succeed({ fiber: earlier, entry }: Instance, plugin: unknown): Fiber | undefined {
    const applied = this.#applied.of(earlier)
    // A parent that went away meanwhile took its children with it.
    if (earlier.parent.fiber.uid === null || applied?.off || (entry && isRemoved(entry))) return undefined
    const config = entry ? rowConfig(entry, plugin) : applied?.config
    const fiber = this.apply(earlier.parent, plugin, config, applied?.getOuterStack)
    this.#applied.hand(earlier, fiber, plugin)
    if (entry) entry.fiber = fiber
    return fiber
  }

  /** Disposes a fiber; one that has not ended in time is left behind, without its services. Returns what that threw. */
  async dispose(fiber: Fiber, ms: number, signal?: AbortSignal): Promise<unknown[]> {
    const gone = (async () => fiber.dispose())()
    const failed: unknown[] = []
    const ended = gone.catch((error: unknown) => void failed.push(error))
    if (!(await within(ms, ended, signal))) void ended.then(this.evict(new Set([fiber])))
    return failed
  }
}

/** The plugin that the entry exports: its default export, or the module itself when it exports `apply`. */
export function entryPlugin(exports: Exports): unknown {
  const plugins = candidates(exports)
  return (plugins.find(([name]) => name === 'default') ?? plugins.find(([name]) => name === '*'))?.[1]
}

/** The plugin of the new version that has the same place among its exports. */
export function successor({ exported }: Instance, exports: Exports): unknown {
  return candidates(exports).find(([name]) => name === exported)?.[1]
}

/** Whether a fiber's plugin runs. */
export function isActive({ state }: Fiber): boolean {
  return state === FiberState.ACTIVE
}

/** Whether a fiber's disposers run. */
export function isUnloading({ state }: Fiber): boolean {
  return state === FiberState.UNLOADING
}

/** Whether a fiber loads or unloads. */
export function isBusy({ inertia }: Fiber): boolean {
  return inertia !== undefined
}

/**
 * Resolves when none of the fibers loads, or unloads what it could not load. A function of the module: what is applied
 * meanwhile notes its async stack, and a closure of a reload there would keep the fibers that were replaced.
 */
export async function settled(fibers: () => Iterable<Fiber>): Promise<void> {
  for (let busy = [...fibers()].filter(isBusy); busy.length > 0; busy = [...fibers()].filter(isBusy)) {
    await Promise.allSettled(busy.map(inertiaOf))
  }
}

async function inertiaOf({ inertia }: Fiber): Promise<void> {
  return inertia
}

/** Whether a fiber is one of `fibers` or below one. */
export function isWithin(fiber: Fiber | undefined, fibers: ReadonlySet<Fiber>): boolean {
  for (let at = fiber; at; at = at.runtime ? at.parent.fiber : undefined) if (fibers.has(at)) return true
  return false
}

/** The row that a fiber runs for; what is below it has the same, and is not what the row is about. */
function ownEntry(fiber: Fiber): Entry | undefined {
  // Nobody but a loader sets it.
  const entry = fiber.entry as Entry | undefined
  return entry && fiberOf(entry) === fiber ? entry : undefined
}

function isRemoved(entry: Entry): boolean {
  return entry.parent.tree.store[entry.options.id] !== entry
}

/** What a row gives to its plugin: a loader may have changed it without a word to the fiber, or evaluate it first. */
function rowConfig(entry: Entry, plugin: unknown): unknown {
  return entry._resolveConfig ? entry._resolveConfig(plugin) : entry.options.config
}

/** The exports of a module that Cordis would accept as a plugin. */
function candidates(exports: Exports | undefined): [name: string, value: unknown][] {
  const found: [string, unknown][] = []
  for (const name of Object.keys(exports ?? {})) {
    const value = read(exports, name)
    if (typeof value === 'function' || (isObject(value) && typeof read(value, 'apply') === 'function'))
      found.push([name, value])
  }
  if (typeof read(exports, 'apply') === 'function') found.push(['*', exports])
  return found
}

function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null
}

/**
 * Cordis notes the stack of whoever applies a plugin, in an Error that it keeps as long as the fiber lives. An unread
 * Error keeps the functions of its frames, and ours hold the fiber that was replaced: one generation would keep the last.
 */
function withoutStack<T>(operation: () => T): T {
  const { stackTraceLimit } = Error
  Error.stackTraceLimit = 0
  try {
    return operation()
  } finally {
    Error.stackTraceLimit = stackTraceLimit
  }
}

/** What a fiber provides itself under a name that stands for `key` where it is. */
function ownService(fiber: Fiber, key: symbol, name: string): Implementation | undefined {
  const service = fiber.store?.[name]
  return service?.fiber === fiber && fiber.ctx[isolate][name] === key ? service : undefined
}

/** Whether a fiber only stands for one that is gone. */
export function isPlace({ uid, runtime }: Fiber): boolean {
  return uid === null && runtime === null
}

function isNamespace(value: unknown): boolean {
  return read(value, Symbol.toStringTag) === 'Module'
}
