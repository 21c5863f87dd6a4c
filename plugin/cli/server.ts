/** A dev server that runs, as the command talks to it: over Vite's WebSocket, like a page. */
import { relative } from 'node:path'
import { WebSocket } from 'ws'
import {
  ANSWER,
  COMMAND,
  DELTA,
  OPEN,
  SNAPSHOT,
  type Answer,
  type Command,
  type Delta,
  type Snapshot
} from '../page/server/protocol.ts'
import { findNotes, type ServerNote } from '../vite/address.ts'

/** Milliseconds until a server that does not answer is not one of ours. */
const PATIENCE = 5000

/** An open connection. */
export interface Connection {
  /** All that was to be seen when it was opened. */
  snapshot: Snapshot
  /**
   * Has something done; resolves with what became of it.
   * @throws why it could not be done, and when the connection ends before.
   */
  ask(command: Command): Promise<string>
  close(): void
}

/**
 * The address of the dev server to talk to: the one that is given, else of the only one that runs here.
 * @throws when none runs here, and when several do.
 */
export function addressOf(given: string | undefined, from: string): string {
  if (given !== undefined) return given
  const all = findNotes(from)
  // One in a folder above is meant from inside of its root only; one below is meant when it is the only one.
  const around = all.filter(({ root }) => !relative(root, from).startsWith('..'))
  const notes = around.length > 0 ? around : all
  const [note] = notes
  if (!note) throw new Error('no dev server with harness-hmr runs here. Start it, or give its address by --url')
  if (notes.length === 1) return note.url
  const list = notes.map(({ url, root }: ServerNote) => `${url} (${root})`).join(', ')
  throw new Error(`several dev servers run here: ${list}. Choose one by --url`)
}

/**
 * Opens a connection.
 * @param url - the address of the dev server, its base included.
 * @param changed - called with what changes from then on.
 * @throws when no dev server with the plugin answers there.
 */
export function connect(
  url: string,
  { signal, changed }: { signal: AbortSignal; changed?(delta: Delta): void }
): Promise<Connection> {
  const address = webSocketOf(url)
  return new Promise((resolve, reject) => {
    // Vite wants its token of a page, which has an Origin; a process of this machine has none.
    const socket = new WebSocket(address, 'vite-hmr', { handshakeTimeout: PATIENCE })
    const asked = new Map<number, { resolve(message: string): void; reject(error: Error): void }>()
    let ids = 0
    const fail = (message: string) => {
      clearTimeout(timer)
      const error = new Error(message)
      reject(error)
      for (const one of asked.values()) one.reject(error)
      socket.terminate()
    }
    const none = `no dev server with harness-hmr answers at ${url}. Give its address, with its base, by --url`
    const timer = setTimeout(fail, PATIENCE, none)
    const send = (event: string, data: unknown) => socket.send(JSON.stringify({ type: 'custom', event, data }))
    const ask: Connection['ask'] = command => {
      const id = ++ids
      send(COMMAND, { ...command, id })
      return new Promise((resolve, reject) => asked.set(id, { resolve, reject }))
    }
    const heard: Record<string, (data: never) => void> = {
      [SNAPSHOT]: (snapshot: Snapshot) => {
        clearTimeout(timer)
        resolve({ snapshot, ask, close: () => socket.terminate() })
      },
      [DELTA]: (delta: Delta) => changed?.(delta),
      [ANSWER]: ({ id, message, error }: Answer) => {
        const one = asked.get(id)
        asked.delete(id)
        if (error !== undefined) one?.reject(new Error(error))
        else one?.resolve(message ?? '')
      }
    }
    signal.addEventListener('abort', () => fail('interrupted'), { once: true })
    socket.on('open', () => send(OPEN, {}))
    socket.on('error', () => fail(none))
    socket.on('close', () => fail(`the dev server at ${url} has ended`))
    socket.on('message', (text: Buffer) => {
      const { type, event, data } = JSON.parse(text.toString()) as { type: string; event?: string; data?: never }
      if (type === 'custom' && event) heard[event]?.(data as never)
    })
  })
}

function webSocketOf(url: string): string {
  const parsed = URL.canParse(url) ? new URL(url) : undefined
  if (!parsed || !/^https?:$/.test(parsed.protocol))
    throw new Error(`option "--url" takes an http address, got "${url}"`)
  // Vite's base ends with a slash.
  if (!parsed.pathname.endsWith('/')) parsed.pathname += '/'
  return parsed.href.replace(/^http/, 'ws')
}
