/** What the harness and pages in a browser tell each other: over Vite's own WebSocket, which lets in who has its token. */
import { basename } from 'node:path'
import type { WebSocketClient, WebSocketServer } from 'vite'
import { scriptsOnStack } from '../report/script.ts'
import type { Visitors } from './visitors.ts'

/** An open page; the same object for all that it sends. */
export interface BrowserPage extends Pick<WebSocketClient, 'send'> {
  /** Whether it may change anything: it is on this machine, or the option `remote` is on. */
  readonly mayAct: boolean
}

/** Called with what a page has sent, which may be anything: it was made outside of this process. */
export type PageListener = (data: unknown, page: BrowserPage) => void | Promise<void>

/** The pages that are open, as code in the harness sees them. */
export interface Browsers {
  /**
   * Calls `listener` when a page sends `event` (there: `import.meta.hot.send(event, data)`), until the function that is
   * returned is called: `ctx.effect(() => browsers.on(…))`. The events `vite:client:connect` and `vite:client:disconnect`
   * tell when a page has come and gone. Nothing is heard of a page that may not act, unless `guests` is set: the listener
   * asks `page.mayAct` then before it changes anything. Of a page of another site nothing is heard at all.
   */
  on(event: string, listener: PageListener, options?: { guests?: boolean }): () => void
  /** Sends to every page (there: `import.meta.hot.on(event, listener)`); `page.send` sends to one. */
  send(event: string, data?: unknown): void
}

interface Subscription {
  event: string
  /** Who listens: a version of a module. */
  file: string | undefined
  version: number
  stop: () => void
}

/** The pages of one dev server, for one harness. */
export class BrowserChannel implements Browsers {
  readonly #socket: Pick<WebSocketServer, 'on' | 'off' | 'send'>
  readonly #visitors: Visitors
  readonly #failed: (error: unknown) => void
  readonly #pages = new WeakMap<WebSocketClient, BrowserPage>()
  readonly #subscriptions = new Set<Subscription>()

  /** `failed` is told what a listener throws, which would end the process where Vite calls it. */
  constructor(
    socket: Pick<WebSocketServer, 'on' | 'off' | 'send'>,
    visitors: Visitors,
    failed: (error: unknown) => void
  ) {
    this.#socket = socket
    this.#visitors = visitors
    this.#failed = failed
  }

  // Arrow functions: the harness gets these without the object that they belong to.
  readonly on: Browsers['on'] = (event, listener, { guests = false } = {}) => {
    const call = (data: unknown, client: WebSocketClient) => {
      const run = async () => {
        // Vite tells of a client before it is known who that is.
        await Promise.resolve()
        const standing = this.#visitors.standing(client)
        if (standing === 'stranger' || (standing === 'guest' && !guests)) return
        if (this.#subscriptions.has(subscription)) await listener(data, this.#pageOf(client))
      }
      run().catch(this.#failed)
    }
    const [script] = scriptsOnStack()
    const stop = () => {
      this.#socket.off(event, call)
      this.#subscriptions.delete(subscription)
    }
    const subscription = { event, file: script?.file, version: script?.version ?? 0, stop }
    this.#subscriptions.add(subscription)
    this.#socket.on(event, call)
    return stop
  }

  #pageOf(client: WebSocketClient): BrowserPage {
    const known = this.#pages.get(client)
    if (known) return known
    const page = {
      mayAct: this.#visitors.standing(client) === 'owner',
      send: client.send.bind(client)
    }
    this.#pages.set(client, page)
    return page
  }

  readonly send = (event: string, data?: unknown): void => this.#socket.send(event, data)

  /** Removes the listeners that retired versions have forgotten, which would answer beside their successors; says which. */
  removeLeftovers(isRetired: (module: string, version: number) => boolean): string[] {
    return [...this.#subscriptions].flatMap(({ event, file, version, stop }) => {
      if (file === undefined || !isRetired(file, version)) return []
      stop()
      return [`${basename(file)} ${version} has left a listener for "${event}" of pages; it was removed`]
    })
  }

  /** Removes every listener. */
  close(): void {
    for (const { stop } of this.#subscriptions) stop()
  }
}
