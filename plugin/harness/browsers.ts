/** What the harness and pages in a browser tell each other: over Vite's own WebSocket, which lets in who has its token. */
import { basename } from 'node:path'
import type { WebSocketClient, WebSocketServer } from 'vite'
import { scriptsOnStack } from '../report/script.ts'

/** An open page; the same object for all that it sends. */
export type BrowserPage = Pick<WebSocketClient, 'send'>

/** Called with what a page has sent, which may be anything: it was made outside of this process. */
export type PageListener = (data: unknown, page: BrowserPage) => void | Promise<void>

/** The pages that are open, as code in the harness sees them. */
export interface Browsers {
  /**
   * Calls `listener` when a page sends `event` (there: `import.meta.hot.send(event, data)`), until the function that is
   * returned is called: `ctx.effect(() => browsers.on(…))`. The events `vite:client:connect` and `vite:client:disconnect`
   * tell when a page has come and gone.
   */
  on(event: string, listener: PageListener): () => void
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
  readonly #failed: (error: unknown) => void
  readonly #subscriptions = new Set<Subscription>()

  /** `failed` is told what a listener throws, which would end the process where Vite calls it. */
  constructor(socket: Pick<WebSocketServer, 'on' | 'off' | 'send'>, failed: (error: unknown) => void) {
    this.#socket = socket
    this.#failed = failed
  }

  // Arrow functions: the harness gets these without the object that they belong to.
  readonly on = (event: string, listener: PageListener): (() => void) => {
    const call = (data: unknown, page: BrowserPage) => {
      const run = async () => listener(data, page)
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
