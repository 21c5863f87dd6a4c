/**
 * Who is at the other end of Vite's WebSocket. Its token is in a file that Vite serves to whoever may read its files: every
 * machine that reaches the server and, as `server.cors` says, pages of other sites.
 */
import type { IncomingHttpHeaders, IncomingMessage } from 'node:http'
import type { ResolvedConfig, WebSocketClient, WebSocketServer } from 'vite'

/**
 * `owner`: a page or a process on this machine, which may do everything; `guest`: on another one, which may look on;
 * `stranger`: a page of another site, which gets nothing.
 */
export type Standing = 'owner' | 'guest' | 'stranger'

type Socket = Pick<WebSocketServer, 'on' | 'off'>

/** Those who are connected to one dev server. */
export class Visitors {
  readonly #socket: Socket
  readonly #remote: boolean
  readonly #isApart: boolean
  readonly #standings = new WeakMap<object, Standing>()

  /** `remote` lets other machines do everything too. */
  constructor(socket: Socket, { ws, middlewareMode, port }: ResolvedConfig['server'], remote: boolean) {
    this.#socket = socket
    this.#remote = remote
    const { server: shared, port: own = port } = typeof ws === 'object' ? ws : {}
    this.#isApart = shared === undefined && (own !== port || middlewareMode !== false)
    socket.on('connection', this.#came)
  }

  /** Who a client is; one whose coming was not seen looks on. */
  standing({ socket }: Pick<WebSocketClient, 'socket'>): Standing {
    return (socket && this.#standings.get(socket)) ?? 'guest'
  }

  /** Sees nobody come any more. */
  close(): void {
    this.#socket.off('connection', this.#came)
  }

  readonly #came = (client: object, { headers, socket }: IncomingMessage): void => {
    const isMay = this.#remote || isLoopback(socket.remoteAddress)
    const isOurs = isSameOrigin(headers, this.#isApart)
    this.#standings.set(client, isOurs ? (isMay ? 'owner' : 'guest') : 'stranger')
  }
}

/**
 * Whether a request comes from a page of the server that it goes to, or from no page. A proxy that changes the host says
 * so in a header that no page can set.
 * @param isApart - whether that server has another port than its pages.
 */
export function isSameOrigin(headers: IncomingHttpHeaders, isApart = false): boolean {
  const { origin, host, 'x-forwarded-host': forwarded = [] } = headers
  if (origin === undefined) return true
  if (!URL.canParse(origin)) return false
  const from = new URL(origin)
  const hosts = [host ?? '', ...[forwarded].flat().flatMap(list => list.split(','))].map(name => name.trim())
  if (hosts.includes(from.host)) return true
  return isApart && URL.canParse(`http://${host}`) && new URL(`http://${host}`).hostname === from.hostname
}

function isLoopback(address = ''): boolean {
  return address === '::1' || /^(::ffff:)?127\./.test(address)
}
