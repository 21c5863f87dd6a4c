/** The kinds of things that run on until somebody ends them: how each is called, and how to tell whether it has ended. */
import type { ClientRequest, ServerResponse } from 'node:http'
import type { Socket } from 'node:net'
import type { Worker } from 'node:worker_threads'

/** Whose code has called the part of Node that starts something: the harness', a package's, or Node's own. */
export type Starter = 'own' | 'package' | 'node'

/** A kind of resource. */
export interface Kind {
  /** As the report calls it. */
  what: string | ((resource: any) => string)
  isAlive(resource: any): boolean
  /**
   * Whether the generation on whose behalf it was started has to end it. A package may share what it starts among all
   * who use it, so its timers, sockets and workers are only named where something is kept.
   */
  isOwned(resource: any, by: Starter): boolean
}

/** The part of a timer that Node's types do not know. */
export interface Timer {
  _repeat: number | null
  _idleTimeout: number
  _destroyed: boolean
}

const isOwn: Kind['isOwned'] = (_, by) => by === 'own'
const isAskedFor: Kind['isOwned'] = (_, by) => by !== 'node'

/** A timer of the harness' code. */
export const TIMER: Kind = {
  what: (timer: Timer) => (timer._repeat === null ? `setTimeout of ${duration(timer._idleTimeout)}` : 'setInterval'),
  isAlive: (timer: Timer) => !timer._destroyed && timer._idleTimeout >= 0,
  isOwned: isOwn
}

/** A socket that its user has connected himself. */
export const SOCKET = handle(socketName, isOwn)

/** A socket of an http client: it belongs to a pool, which outlives whoever asked first, unless his request has it. */
export const POOLED_SOCKET = handle(socketName, socket => request(socket)?.reusedSocket === false)

/** A socket of `fetch`, whose pool is the process'. */
export const FETCH_SOCKET = handle('socket of fetch', () => false)

/** One that nobody listens to is as good as gone. */
export const MESSAGE_PORT = handle(
  'MessagePort',
  (port: { hasRef?(): boolean }, by) => by === 'own' && port.hasRef?.() !== false
)

/** By their type in async_hooks. */
export const BY_TYPE: Record<string, Kind> = {
  Timeout: TIMER,
  FSEVENTWRAP: handle('fs.watch'),
  STATWATCHER: handle('fs.watchFile'),
  UDPWRAP: handle('dgram.Socket'),
  TCPWRAP: SOCKET,
  PIPEWRAP: SOCKET,
  TLSWRAP: SOCKET,
  MESSAGEPORT: MESSAGE_PORT,
  HTTPCLIENTREQUEST: {
    what: 'http request',
    isAlive: ({ req }: { req: ClientRequest }) => !req.closed && !req.destroyed,
    isOwned: () => false
  }
}

/** Those that Node announces on a diagnostics channel, which costs nothing: channel, key of the message, kind. */
export const BY_CHANNEL: [channel: string, key: string, kind: Kind][] = [
  // By the server, since `listen` makes its handle later when it has a host to look up.
  ['tracing:net.server.listen:asyncStart', 'server', { what: 'net.Server', isAlive: hasHandle, isOwned: isAskedFor }],
  ['child_process', 'process', { what: 'child process', isAlive: hasHandle, isOwned: isAskedFor }],
  ['worker_threads', 'worker', { what: 'Worker', isAlive: ({ threadId }: Worker) => threadId !== -1, isOwned: isOwn }]
]

/** A listener on `process`. */
export function listenerOf(event: string | symbol): Kind {
  return {
    what: `listener "${String(event)}" on process`,
    isAlive: listener => process.listeners(event as 'exit').includes(listener),
    isOwned: isOwn
  }
}

function handle(what: Kind['what'], isOwned: Kind['isOwned'] = isAskedFor): Kind {
  return { what, isOwned, isAlive: (open: { getAsyncId?(): number }) => open.getAsyncId?.() !== -1 }
}

function hasHandle(of: object): boolean {
  return (of as { _handle?: unknown })._handle != null
}

function duration(ms: number): string {
  return ms < 120_000 ? `${ms / 1000} s` : `${Math.round(ms / 6000) / 10} min`
}

type HttpSocket = Socket & { _httpMessage?: ClientRequest | ServerResponse | null }

function socketName(socket: object): string {
  if (request(socket)) return 'http request'
  return ownerOf(socket)?._httpMessage === null ? 'keep-alive socket of an http.Agent' : 'socket'
}

function ownerOf(handle: object): HttpSocket | undefined {
  const key = Object.getOwnPropertySymbols(handle).find(({ description }) => description === 'owner_symbol')
  return key && (handle as Record<symbol, HttpSocket>)[key]
}

/** The request that a client's socket is used for. */
function request(handle: object): ClientRequest | undefined {
  const message = ownerOf(handle)?._httpMessage
  return message && 'reusedSocket' in message ? message : undefined
}
