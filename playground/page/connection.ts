/** The page's end of Vite's WebSocket: the model follows what the harness sends, and the harness is asked for things. */
import { signalChange } from './store.ts'
import type { Answer, FromHarness, Requests } from '../extras/page/protocol.ts'
import {
  takeAgent,
  takeAudit,
  takeDelta,
  takeEvent,
  takeReport,
  takeSession,
  takeSnapshot,
  type Missing,
  type Model
} from './model.ts'

// In full: Vite looks for these words.
const hot = import.meta.hot

const waiting = new Map<number, { resolve: (result: never) => void; reject: (error: Error) => void }>()
let requests = 0
let isLost = false

/** Asks the harness; rejects with what it says when it cannot, and when the connection ends before it answers. */
export function request<K extends keyof Requests>(name: K, data: Requests[K][0]): Promise<Requests[K][1]> {
  return new Promise((resolve, reject) => {
    if (isLost) throw new Error('the connection to the server is lost')
    const id = ++requests
    waiting.set(id, { resolve, reject })
    hot?.send('playground:request', { id, name, ...data })
  })
}

/** Opens a file in the editor of whoever runs the server; that is a service of Vite's. */
export async function openInEditor(file: string, line?: number, column = 1): Promise<void> {
  const place = line === undefined ? file : `${file}:${line}:${column}`
  await fetch(`${import.meta.env.BASE_URL}__open-in-editor?file=${encodeURIComponent(place)}`)
}

/** Follows the harness, from the first message on. */
export function follow(model: Model): void {
  const on = <K extends keyof FromHarness>(event: K, take: (data: FromHarness[K]) => Missing | void) => {
    hot?.on(`playground:${event}`, (data: FromHarness[K]) => {
      const missing = take(data)
      if (missing !== undefined) void readSession(model, missing)
      signalChange()
    })
  }
  const open = () => hot?.send('playground:open')
  on('here', open)
  on('snapshot', snapshot => takeSnapshot(model, snapshot))
  on('event', update => takeEvent(model, update))
  on('delta', delta => takeDelta(model, delta))
  on('agent', agent => takeAgent(model, agent))
  on('reloading', ({ services }) => void (model.reloading = services))
  on('report', report => takeReport(model, report))
  on('audit', audit => takeAudit(model, audit))
  on('answer', settle)
  hot?.on('vite:ws:disconnect', () => {
    isLost = true
    model.link = 'lost'
    for (const { reject } of waiting.values()) reject(new Error('the connection to the server is lost'))
    waiting.clear()
    signalChange()
  })
  if (model.link === 'connecting') model.link = 'waiting'
  open()
}

/** Reads a session that the page does not have, or not in full. */
export async function readSession(model: Model, id: string): Promise<void> {
  takeSession(model, await request('session', { session: id }))
  signalChange()
}

function settle(answer: Answer): void {
  const asked = waiting.get(answer.id)
  waiting.delete(answer.id)
  if ('error' in answer) asked?.reject(new Error(answer.error))
  else asked?.resolve(answer.result as never)
}
