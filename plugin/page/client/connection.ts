/** The page's end of Vite's WebSocket: its token, its port, and coming back after a restart are the business of Vite's client. */
import { ANSWER, type Answer, COMMAND, type Command, DELTA, type Delta, OPEN, SNAPSHOT } from '../server/protocol.ts'
import type { Snapshot } from '../server/protocol.ts'
import { EMPTY, type View, withDelta, withSnapshot } from './state.ts'

interface Hot {
  on(event: string, listener: (data: never) => void): void
  send(event: string, data?: unknown): void
}

/** Milliseconds without an answer after which the page says what may be wrong. */
const REFUSED_AFTER = 6000

/** Milliseconds that a notice stays. */
const NOTICE = 8000

/** Holds the view, and tells when it has changed. */
export class Store {
  view: View = EMPTY
  #changed: () => void = () => {}
  #hot: Hot | undefined
  #commands = 0
  readonly #asked = new Map<number, (answer: Answer) => void>()

  /** Calls `changed` whenever the view has changed. */
  subscribe(changed: () => void): void {
    this.#changed = changed
  }

  /** Connects; a connection that breaks is found again by Vite's client, which then loads the page again. */
  async connect(): Promise<void> {
    setTimeout(() => this.view.connection === 'connecting' && this.#set({ connection: 'refused' }), REFUSED_AFTER)
    try {
      // The server's, under whatever base: relative to this page.
      const client = new URL('../@vite/client', document.baseURI).href
      const { createHotContext } = (await import(/* @vite-ignore */ client)) as { createHotContext(path: string): Hot }
      const hot = (this.#hot = createHotContext('/__harness/'))
      hot.on(SNAPSHOT, (told: Snapshot) => this.#replace(withSnapshot(this.view, told, Date.now())))
      hot.on(DELTA, (delta: Delta) => this.#replace(withDelta(this.view, delta, Date.now())))
      hot.on(ANSWER, (answer: Answer) => this.#asked.get(answer.id)?.(answer))
      hot.on('vite:ws:disconnect', () => this.#set({ connection: 'lost', task: undefined }))
      hot.send(OPEN)
    } catch {
      this.#set({ connection: 'refused' })
    }
  }

  /** Asks the server to do something; the view says what became of it. */
  async command(command: Command): Promise<void> {
    if (this.view.connection !== 'live') return
    const id = ++this.#commands
    const answered = new Promise<Answer>(resolve => this.#asked.set(id, resolve))
    this.#hot?.send(COMMAND, { ...command, id })
    const { message, error } = await answered
    this.#asked.delete(id)
    const notice = { text: error ?? message ?? '', isError: error !== undefined }
    this.#set({ notice, task: undefined })
    setTimeout(() => this.view.notice === notice && this.#set({ notice: undefined }), NOTICE)
  }

  #set(change: Partial<View>): void {
    this.#replace({ ...this.view, ...change })
  }

  #replace(view: View): void {
    this.view = view
    this.#changed()
  }
}
