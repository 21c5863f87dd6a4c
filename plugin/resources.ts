/**
 * What the harness' code starts and has to end: timers, servers, sockets, watchers, processes, requests, listeners on
 * `process`; each with the place that started it, held weakly.
 *
 * Most is told by `async_hooks`. Where the hook need not see promises (`trackPromises: false`, newer Node lines) it costs
 * nothing; elsewhere every promise pays for it, so there it is up to `trace`.
 */
import { createHook } from 'node:async_hooks'
import type { Socket } from 'node:net'
import type { ClientRequest, ServerResponse } from 'node:http'
import type { Creators, Generation } from './creators.ts'
import type { Ledger, LedgerEntry } from './ledger.ts'
import { makeNodesOwn } from './nodes-own.ts'
import type { Retainer } from './report.ts'
import { locate, type Script, sitesOnStack } from './script.ts'

/** A kind of resource. */
interface Kind {
  /** As the report calls it. */
  what: string | ((resource: any) => string)
  isAlive(resource: any): boolean
  /** Whether the one that started it has to end it; what is not its own is only named where it keeps something. */
  isOwned(resource: any): boolean
}

/** One resource that was started by code of the harness, or inside one of its storages. */
interface Resource {
  ref: WeakRef<object>
  kind: Kind
  creators: Script[]
  /** The storages that it was started inside of: they, or what they carried, live as long as it does. */
  inside: LedgerEntry[]
  /** Whether the harness' code started it itself, and not a part of Node for its own needs. */
  direct: boolean
}

/** A timer that ends within so many milliseconds is gone before anybody asks for it. */
const SHORT_TIMER = 1000

const always = () => true
const never = () => false

const TIMER: Kind = {
  what: (timer: Timer) => (timer._repeat === null ? `setTimeout of ${duration(timer._idleTimeout)}` : 'setInterval'),
  isAlive: (timer: Timer) => !timer._destroyed && timer._idleTimeout >= 0,
  isOwned: always
}
// A client's socket belongs to a pool, which outlives whoever asked first, unless his request still has it.
const SOCKET = handle(
  socket => {
    if (request(socket)) return 'http request'
    return ownerOf(socket)?._httpMessage === null ? 'keep-alive socket of an http.Agent' : 'socket'
  },
  socket => request(socket)?.reusedSocket === false
)
// Its pool is the process'.
const FETCH = handle('socket of fetch', never)
const REQUEST: Kind = {
  what: 'http request',
  isAlive: ({ req }: { req: ClientRequest }) => !req.closed && !req.destroyed,
  isOwned: never
}
const LISTENER = (event: string | symbol): Kind => ({
  what: `listener "${String(event)}" on process`,
  isAlive: listener => process.listeners(event as 'exit').includes(listener),
  isOwned: always
})

/** By their type in async_hooks. */
const KINDS: Record<string, Kind> = {
  Timeout: TIMER,
  TCPSERVERWRAP: handle('net.Server'),
  PIPESERVERWRAP: handle('net.Server'),
  FSEVENTWRAP: handle('fs.watch'),
  STATWATCHER: handle('fs.watchFile'),
  PROCESSWRAP: handle('child process'),
  WORKER: handle('Worker'),
  UDPWRAP: handle('dgram.Socket'),
  TCPWRAP: SOCKET,
  PIPEWRAP: SOCKET,
  TLSWRAP: SOCKET,
  HTTPCLIENTREQUEST: REQUEST
}

function handle(what: Kind['what'], isOwned: Kind['isOwned'] = always): Kind {
  return { what, isOwned, isAlive: (open: { getAsyncId?(): number }) => open.getAsyncId?.() !== -1 }
}

/** Without the parts of others among them: a request has a timer of Node's, and is told once more without a place. */
function mostTelling<T extends Retainer & { direct: boolean }>(retainers: T[]): T[] {
  const direct = retainers.filter(retainer => retainer.direct)
  const told = direct.length > 0 ? direct : retainers
  return told.filter(({ what, location }) => location || !told.some(other => other.what === what && other.location))
}

/** Knows what runs on behalf of whom. */
export class Resources {
  readonly #creators: Creators
  readonly #ledger: Ledger
  #all = new Set<Resource>()
  #sweepAt = 256

  constructor(creators: Creators, ledger: Ledger) {
    this.#creators = creators
    this.#ledger = ledger
  }

  /** Starts to take notes; `trace` also where that slows every promise down. Returns how to stop. */
  listen(trace: boolean): () => void {
    makeNodesOwn()
    const undo = [this.#listenToListeners()]
    if (trace || isFree()) undo.push(this.#hook())
    return () => {
      for (const step of undo) step()
    }
  }

  /** What a generation started, and has not ended. */
  leftBy({ module, generation }: Generation): Retainer[] {
    return this.#name(({ kind, direct, creators }, resource) => {
      if (!direct || !kind.isOwned(resource)) return false
      const owner = this.#creators.ownerOf(creators)
      return owner?.module === module && owner.generation === generation
    })
  }

  /** What was started inside of any of these storages, by whomever, and has not ended. */
  startedInside(entries: readonly LedgerEntry[]): Retainer[] {
    return this.#name(({ inside }) => inside.some(entry => entries.includes(entry)))
  }

  #name(concerns: (entry: Resource, resource: object) => boolean): Retainer[] {
    this.#sweep()
    const named = new Map<string, Retainer & { direct: boolean }>()
    for (const entry of this.#all) {
      const resource = entry.ref.deref()
      if (!resource || !concerns(entry, resource)) continue
      const { kind, creators, direct } = entry
      const what = typeof kind.what === 'string' ? kind.what : kind.what(resource)
      const [at] = creators
      const location = at && locate(`${at.file}?v=${at.version}`, at.line, at.column)
      // One socket is several handles.
      named.set(`${what} ${at?.file}:${at?.line}:${at?.column}`, { what, location, direct })
    }
    return mostTelling([...named.values()]).map(({ what, location }) => ({ what, location }))
  }

  #sweep(): void {
    for (const resource of this.#all) {
      const alive = resource.ref.deref()
      if (!alive || !resource.kind.isAlive(alive)) this.#all.delete(resource)
    }
    this.#sweepAt = Math.max(256, this.#all.size * 2)
  }

  #note(resource: object, kind: Kind): void {
    const creators = this.#creators.onStack()
    if (kind === SOCKET && filesOnStack().some(file => file.includes('undici'))) kind = FETCH
    const inside = this.#ledger.live().filter(({ storage }) => storage.deref()?.getStore() !== undefined)
    if (creators.length === 0 && inside.length === 0) return
    this.#all.add({ ref: new WeakRef(resource), kind, creators, inside, direct: kind !== TIMER || !isNodesTimer() })
    if (this.#all.size >= this.#sweepAt) this.#sweep()
  }

  #hook(): () => void {
    const hook = createHook({
      init: (_, type, __, resource) => {
        const kind = KINDS[type]
        if (kind && !(kind === TIMER && isShort(resource as Timer))) this.#note(resource, kind)
      },
      ...UNTRACKED
    }).enable()
    return () => void hook.disable()
  }

  #listenToListeners(): () => void {
    const noted = (event: string | symbol, listener: (...args: unknown[]) => void) =>
      this.#note(listener, LISTENER(event))
    process.on('newListener', noted)
    return () => process.off('newListener', noted)
  }
}

interface Timer {
  _repeat: number | null
  _idleTimeout: number
  _destroyed: boolean
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

const OF_TIMERS = /^node:(internal\/async_hooks|internal\/timers|timers|timers\/promises)$/

/** Whether a timer that is being made is one of Node's own, such as the one that an http server checks its connections by. */
function isNodesTimer(): boolean {
  const files = filesOnStack()
  // Above the frames that make it are those that look at it here.
  const made = files.slice(files.findIndex(file => OF_TIMERS.test(file)))
  return made.find(file => !OF_TIMERS.test(file))?.startsWith('node:') ?? true
}

function filesOnStack(): string[] {
  return sitesOnStack().map(site => site.getFileName() ?? '')
}

function duration(ms: number): string {
  return ms < 120_000 ? `${ms / 1000} s` : `${Math.round(ms / 6000) / 10} min`
}

type HttpSocket = Socket & { _httpMessage?: ClientRequest | ServerResponse | null }

function ownerOf(handle: object): HttpSocket | undefined {
  const key = Object.getOwnPropertySymbols(handle).find(({ description }) => description === 'owner_symbol')
  return key && (handle as Record<symbol, HttpSocket>)[key]
}

/** The request that a client's socket is used for. */
function request(handle: object): ClientRequest | undefined {
  const message = ownerOf(handle)?._httpMessage
  return message && 'reusedSocket' in message ? message : undefined
}
