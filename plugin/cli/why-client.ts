/** Asks a running dev server for the search through its heap, over Vite's WebSocket. */
import { WebSocket } from 'ws'
import {
  ANSWER,
  COMMAND,
  DELTA,
  OPEN,
  SNAPSHOT,
  type Answer,
  type Delta,
  type Snapshot,
  type Task
} from '../page/server/protocol.ts'
import type { WhyReport } from '../report/report.ts'

/** Milliseconds until a server that does not answer is no server of ours. */
const PATIENCE = 5000
const ID = 1

/** What it found, and the root that its paths are below. */
export interface Whys {
  root: string
  whys: WhyReport[]
}

/**
 * Resolves with one report for each generation that is kept.
 * @param url - the address of the dev server, its base included.
 * @throws when no dev server with the plugin answers there, and what it answers when it cannot search.
 */
export function askWhy(
  url: string,
  { signal, progress }: { signal: AbortSignal; progress(task: Task): void }
): Promise<Whys> {
  const address = addressOf(url)
  return new Promise((resolve, reject) => {
    // Vite wants its token of a page, which has an Origin; a process of this machine has none.
    const socket = new WebSocket(address, 'vite-hmr', { handshakeTimeout: PATIENCE })
    const end = (finish: () => void) => {
      clearTimeout(timer)
      finish()
      socket.terminate()
    }
    const fail = (message: string) => end(() => reject(new Error(message)))
    const none = `no dev server with harness-hmr answers at ${url}. Give its address, with its base, by --url`
    const timer = setTimeout(fail, PATIENCE, none)
    const send = (event: string, data: unknown) => socket.send(JSON.stringify({ type: 'custom', event, data }))
    let found: Whys | undefined
    let isAnswered = false
    const heard: Record<string, (data: never) => void> = {
      [SNAPSHOT]: ({ root }: Snapshot) => {
        clearTimeout(timer)
        found = { root, whys: [] }
        send(COMMAND, { id: ID, do: 'why' })
      },
      // What was found comes before the answer or soon after it.
      [DELTA]: ({ task, lists }: Delta) => {
        if (task) progress(task)
        found?.whys.push(...(lists?.whys ?? []))
        if (isAnswered && found && found.whys.length > 0) end(() => resolve(found!))
      },
      [ANSWER]: ({ id, message, error }: Answer) => {
        if (id !== ID || !found) return
        if (error !== undefined) return fail(error)
        isAnswered = true
        if (found.whys.length > 0 || message !== 'searched') end(() => resolve(found!))
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

function addressOf(url: string): string {
  const parsed = URL.canParse(url) ? new URL(url) : undefined
  if (!parsed || !/^https?:$/.test(parsed.protocol))
    throw new Error(`option "--url" takes an http address, got "${url}"`)
  // Vite's base ends with a slash.
  if (!parsed.pathname.endsWith('/')) parsed.pathname += '/'
  return parsed.href.replace(/^http/, 'ws')
}
