/** What the page knows, and how a message from the server changes it. Pure. */
import type { Command, Delta, Lists, Snapshot, Task } from '../server/protocol.ts'

/** How many reports are kept, as on the server. */
const KEPT = 500
const KEPT_FEW = 20

/** How the page is connected: `lost` until Vite's client has found the server again and loads the page again. */
export type Connection = 'connecting' | 'live' | 'lost' | 'refused'

/** What is shown. */
export interface View {
  connection: Connection
  /** All that the server has told; `undefined` until then. */
  told: Snapshot | undefined
  /** Milliseconds that the server's clock is ahead. */
  ahead: number
  /** Something long that runs on the server. */
  task: Task | undefined
  /** What became of the last command. */
  notice: { text: string; isError: boolean } | undefined
}

/** Asks the server to do something. */
export type Act = (command: Command) => void

export const EMPTY: View = { connection: 'connecting', told: undefined, ahead: 0, task: undefined, notice: undefined }

/** The view after a snapshot. */
export function withSnapshot(view: View, told: Snapshot, now: number): View {
  return { ...view, connection: 'live', told, ahead: told.now - now }
}

/** The view after a delta. */
export function withDelta(view: View, delta: Delta, now: number): View {
  if (!view.told) return view
  const told = { ...view.told, ...delta.parts, ...merged(view.told, delta.lists ?? {}) }
  const task = delta.task && delta.task.fraction < 1 ? delta.task : delta.task ? undefined : view.task
  return { ...view, told, ahead: delta.now - now, task: delta.lists?.whys ? undefined : task }
}

function merged(told: Lists, { reloads, audits, whys, errors, samples }: Partial<Lists>): Partial<Lists> {
  const lists: Partial<Lists> = {}
  if (reloads) lists.reloads = [...told.reloads, ...reloads].slice(-KEPT)
  if (errors) lists.errors = [...told.errors, ...errors].slice(-KEPT_FEW)
  if (audits) lists.audits = newest([...told.audits, ...audits], generationKey).slice(-KEPT)
  if (whys) lists.whys = newest([...told.whys, ...whys], generationKey).slice(-KEPT_FEW)
  if (samples) lists.samples = newest([...told.samples, ...samples], ({ reload }) => String(reload)).slice(-KEPT)
  return lists
}

/** The last of each key, in the order in which those came. */
function newest<T>(items: T[], keyOf: (item: T) => string): T[] {
  const found = new Map<string, T>()
  for (const item of items) {
    found.delete(keyOf(item))
    found.set(keyOf(item), item)
  }
  return [...found.values()]
}

/** One string per generation of a module. */
export function generationKey({ module, generation }: { module: string; generation: number }): string {
  return `${module} ${generation}`
}
