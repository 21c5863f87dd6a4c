/**
 * What the harness' code starts and has to end: timers, servers, sockets, watchers, processes, requests, listeners on
 * `process`; each with the place that started it, held weakly.
 *
 * Servers, processes, workers and listeners are announced by Node itself, which costs nothing. The rest is told by
 * `async_hooks`. Where the hook need not see promises (`trackPromises: false`, newer Node lines) that is free too;
 * elsewhere every promise pays for it, so there it is up to `trace`.
 */
import { createHook } from 'node:async_hooks'
import { subscribe, unsubscribe } from 'node:diagnostics_channel'
import { now } from '../guard/clock.ts'
import { aside, attempt } from '../guard/contain.ts'
import { type Creators, type Generation, generationKey } from '../audit/creators.ts'
import type { Leaks } from '../audit/leaks.ts'
import type { Ledger, LedgerEntry } from '../audit/ledger.ts'
import { clearIdleParsers, makeNodesOwn } from './nodes-own.ts'
import type { Retainer } from '../report/report.ts'
import {
  BY_CHANNEL,
  BY_TYPE,
  FETCH_SOCKET,
  type Kind,
  listenerOf,
  MESSAGE_PORT,
  POOLED_SOCKET,
  SOCKET,
  type Starter,
  TIMER,
  type Timer
} from './kinds.ts'
import { type Location, locateScript, parseScript, type Script, sitesOnStack } from '../report/script.ts'

/** One resource that was started by code of the harness, or inside one of its storages. */
interface Resource {
  ref: WeakRef<object>
  kind: Kind
  creators: Script[]
  /** Where the innermost of them is in the source; asked for while its map is kept. */
  location: Location | undefined
  /** The storages that it was started inside of: they, or what they carried, live as long as it does. */
  inside: LedgerEntry[]
  by: Starter
}

/** A timer that ends within so many milliseconds is looked at only when that costs next to nothing. */
const SHORT_TIMER = 1000
/** So many short timers are looked at in a second, at some 10 µs each: enough for one that is set again and again. */
const SHORT_TIMERS_A_SECOND = 200

const SWEPT_AT = 256

/** Knows what runs on behalf of whom. */
export class Resources implements Leaks {
  readonly #creators: Creators
  readonly #ledger: Ledger
  readonly #aside: ReturnType<typeof aside>
  readonly #all = new Set<Resource>()
  #sweepAt = SWEPT_AT
  /** Servers that do not listen yet. */
  readonly #starting = new WeakMap<object, Resource>()
  #second = 0
  #shortTimers = 0

  /** `failed` is told of an error in what is noted while the user's code runs; that goes on. */
  constructor(creators: Creators, ledger: Ledger, failed: (error: unknown) => void) {
    this.#aside = aside(failed)
    this.#creators = creators
    this.#ledger = ledger
  }

  /** Starts to take notes; `trace` also where that slows every promise down. Returns how to stop. */
  listen(trace: boolean): () => void {
    makeNodesOwn()
    const undo = [this.#listenToListeners(), ...this.#listenToChannels()]
    if (trace || isFree()) undo.push(this.#hook())
    return () => {
      for (const step of undo) step()
    }
  }

  leftBy(generation: Generation): Retainer[] {
    return this.#name((entry, resource) => isOwned(entry, resource) && this.#creators.isBy(entry.creators, generation))
  }

  startedFor(generation: Generation): Retainer[] {
    return this.#name(
      (entry, resource) =>
        entry.by === 'package' && isOwned(entry, resource, 'own') && this.#creators.isBy(entry.creators, generation)
    )
  }

  startedInside(entries: readonly LedgerEntry[]): Retainer[] {
    return this.#name(({ inside }) => inside.some(entry => entries.includes(entry)))
  }

  starters(): Generation[] {
    this.#sweep()
    const found = new Map<string, Generation>()
    for (const entry of this.#all) {
      const resource = entry.ref.deref()
      const owner = resource && isOwned(entry, resource) ? this.#creators.ownerOf(entry.creators) : undefined
      if (owner) found.set(generationKey(owner), owner)
    }
    return [...found.values()]
  }

  letGo(): void {
    clearIdleParsers()
  }

  countListeners(): () => string[] {
    const before = processListeners()
    return () =>
      [...processListeners()].flatMap(([event, count]) => {
        const more = count - (before.get(event) ?? 0)
        return more > 0 ? [`process has ${count} listeners for "${String(event)}", ${more} more than before`] : []
      })
  }

  #name(concerns: (entry: Resource, resource: object) => boolean): Retainer[] {
    this.#sweep()
    const named = new Map<string, Retainer & { by: Starter }>()
    for (const entry of this.#all) {
      const resource = entry.ref.deref()
      if (!resource || !concerns(entry, resource)) continue
      const { kind, creators, by } = entry
      const what = ask(() => (typeof kind.what === 'string' ? kind.what : kind.what(resource)))
      if (!what) continue
      const [at] = creators
      const location = (entry.location ??= at && locateScript(at))
      // One socket is several handles.
      named.set(`${what} ${at?.file}:${at?.line}:${at?.column}`, { what, location, by })
    }
    return mostTelling([...named.values()]).map(({ what, location }) => ({ what, location }))
  }

  #sweep(): void {
    for (const resource of this.#all) {
      const alive = resource.ref.deref()
      if (!alive || !ask(() => resource.kind.isAlive(alive))) this.#all.delete(resource)
    }
    this.#sweepAt = Math.max(SWEPT_AT, this.#all.size * 2)
  }

  /**
   * What is known of a resource that is being started right now; `undefined` where it is none of the harness'.
   * @param entered - the function of Node that was called for it, where others may have patched those that it calls.
   */
  #look(resource: object, kind: Kind, entered?: string): Resource | undefined {
    const sites = sitesOnStack()
    const creators = this.#creators.among(sites)
    const inside = this.#ledger.entered()
    if (creators.length === 0 && inside.length === 0) return undefined
    const from = entered ? sites.findIndex(site => site.getFunctionName() === entered) : 0
    const files = sites.slice(Math.max(from, 0)).map(site => site.getFileName() ?? '')
    const special = kind === SOCKET ? kindOfSocket(files) : kind
    const by = starterOf(files, special)
    return { ref: new WeakRef(resource), kind: special, creators, location: undefined, inside, by }
  }

  #note(entry: Resource | undefined): void {
    if (!entry) return
    this.#all.add(entry)
    if (this.#all.size >= this.#sweepAt) this.#sweep()
  }

  #hook(): () => void {
    const hook = createHook({
      init: (_, type, __, resource) => {
        const kind = BY_TYPE[type]
        if (!kind) return
        this.#aside(() => {
          if (kind === TIMER && isShort(resource as Timer)) this.#noteShort(resource)
          else this.#note(this.#look(resource, kind))
        })
      },
      ...UNTRACKED
    }).enable()
    return () => void hook.disable()
  }

  /** One short timer is gone before anybody asks for it, unless it is set again and again: a loop that runs on. */
  #noteShort(timer: object): void {
    const second = Math.floor(now() / 1000)
    if (second !== this.#second) [this.#second, this.#shortTimers] = [second, 0]
    if (this.#shortTimers++ >= SHORT_TIMERS_A_SECOND) return
    const entry = this.#look(timer, TIMER)
    if (entry?.by === 'own') this.#note(entry)
  }

  #listenToListeners(): () => void {
    const noted = (event: string | symbol, listener: (...args: unknown[]) => void) =>
      this.#aside(() => this.#note(this.#look(listener, listenerOf(event), '_addListener')))
    process.on('newListener', noted)
    return () => process.off('newListener', noted)
  }

  #listenToChannels(): (() => void)[] {
    const channels = BY_CHANNEL.map(([channel, key, kind]) => {
      const told = (message: unknown) => {
        const started = (message as Record<string, object>)[key]!
        const entry = this.#look(started, kind)
        // Nobody could tell a server that does not listen yet from one that has ended.
        if (key === 'server' && entry) this.#starting.set(started, entry)
        else this.#note(entry)
      }
      return [channel, told] as const
    })
    const listens = (message: unknown) => this.#note(this.#starting.get((message as { server: object }).server))
    const all = [...channels, ['tracing:net.server.listen:asyncEnd', listens] as const]
    return all.map(([channel, told]) => {
      const contained = (message: unknown) => this.#aside(() => told(message))
      subscribe(channel, contained)
      return () => unsubscribe(channel, contained)
    })
  }
}

/** What a kind says of a resource; one that cannot be asked (a getter of the user's throws) is not named. */
function ask<T>(question: () => T): T | undefined {
  return attempt(question, () => undefined)
}

function isOwned({ kind, by }: Resource, resource: object, as: Starter = by): boolean {
  return ask(() => kind.isOwned(resource, as)) ?? false
}

/** What Node's types do not know yet. */
const UNTRACKED = { trackPromises: false } as object

let free: boolean | undefined

/** Whether a hook may be installed that promises do not pay for, found by looking: older lines ignore the option. */
function isFree(): boolean {
  if (free !== undefined) return free
  free = true
  const hook = createHook({ init: (_, type) => void (type === 'PROMISE' && (free = false)), ...UNTRACKED }).enable()
  void Promise.resolve().then(() => {})
  hook.disable()
  return free
}

function isShort({ _repeat, _idleTimeout }: Timer): boolean {
  return _repeat === null && _idleTimeout < SHORT_TIMER
}

/** Without the parts of others among them: a request has a timer of Node's, and is told once more without a place. */
function mostTelling<T extends Retainer & { by: Starter }>(retainers: T[]): T[] {
  const asked = retainers.filter(({ by }) => by !== 'node')
  const told = asked.length > 0 ? asked : retainers
  return told.filter(({ what, location }) => location || !told.some(other => other.what === what && other.location))
}

const OF_HOOKS = /^node:(internal\/async_hooks|diagnostics_channel)$/
const OF_TIMERS = /^node:(internal\/timers|timers|timers\/promises)$/
const OF_NET = /^node:(net|events|_?tls\w*|http2|internal\/(net|js_stream_socket|stream_base_commons|http2\/.*))$/
const OF_PORTS = /^node:internal\/worker\/io$/
const OF_HTTP_CLIENT = /^node:_http_(agent|client)$/
const OF_FETCH = /^node:internal\/deps\/undici\/|[\\/]node_modules[\\/]undici[\\/]/

/** The files of the part of Node that starts something, innermost first, and those of its callers. */
function split(files: string[]): { node: string[]; callers: string[] } {
  // Innermost are those that look at it here.
  const made = files.slice(files.findIndex(file => file.startsWith('node:')))
  const end = made.findIndex(file => file !== '' && !file.startsWith('node:'))
  const of = end < 0 ? made : made.slice(0, end)
  return { node: of.filter(file => file !== '' && !OF_HOOKS.test(file)), callers: end < 0 ? [] : made.slice(end) }
}

/** Kinds that Node makes for its own needs too, as the timer that a server checks its connections by. */
const MADE_BY = new Map<Kind, RegExp>([
  [TIMER, OF_TIMERS],
  [SOCKET, OF_NET],
  [MESSAGE_PORT, OF_PORTS]
])

/** Who has started something. */
function starterOf(files: string[], kind: Kind): Starter {
  const { node, callers } = split(files)
  const [caller] = callers
  if (!caller || !node.every(file => (MADE_BY.get(kind) ?? /^/).test(file))) return 'node'
  return parseScript(caller) ? 'own' : 'package'
}

function kindOfSocket(files: string[]): Kind {
  if (files.some(file => OF_FETCH.test(file))) return FETCH_SOCKET
  return split(files).node.some(file => OF_HTTP_CLIENT.test(file)) ? POOLED_SOCKET : SOCKET
}

function processListeners(): Map<string | symbol, number> {
  return new Map(process.eventNames().map(event => [event, process.listenerCount(event)]))
}
