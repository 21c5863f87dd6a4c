/**
 * The server's side of the live page: a snapshot for a page that opens, then what has changed, and the commands that it
 * sends. While no page is open nothing is listened to, looked at or measured.
 */
import { version, type WebSocketClient, type WebSocketServer } from 'vite'
import { clearTimeout, now, setTimeout, timestamp } from '../../guard/clock.ts'
import { attempt, messageOf } from '../../guard/contain.ts'
import type { Harness } from '../../harness/harness.ts'
import { Commands } from './commands.ts'
import { overview } from './overview.ts'
import {
  ANSWER,
  COMMAND,
  DELTA,
  type FiberNode,
  type Lists,
  OPEN,
  type Parts,
  SNAPSHOT,
  type Snapshot,
  type Task
} from './protocol.ts'
import { Sampler } from './sampler.ts'
import { keeping } from './tree.ts'
import { shownWaits } from './waits.ts'

/** Milliseconds between a change and its delta, and between two looks at what tells of no change (boundaries, fibers). */
const SOON = 50
const TICK = 1000
const TICK_DRAINING = 250
/** Looking takes no more than this share of the time: it may have thousands of boundaries to count. */
const SHARE = 0.1

type Socket = Pick<WebSocketServer, 'on' | 'off'>

/** The pages that are open on one harness. */
export class PageChannel {
  readonly #socket: Socket
  readonly #harness: Harness
  readonly #root: string
  readonly #clients = new Set<WebSocketClient>()
  readonly #commands: Commands
  /** What the pages know of each part, as JSON. */
  readonly #told = new Map<keyof Parts, string>()
  #lists: Partial<Lists> = {}
  /** The tree before the reload that runs. */
  #tree: FiberNode[] = []
  #task: Task | undefined
  readonly #sampler: Sampler
  #stop: (() => void) | undefined
  #timer: NodeJS.Timeout | undefined
  #due = Infinity
  #cost = 0
  #lookedAt = 0
  #lastFailure: string | undefined

  constructor(socket: Socket, harness: Harness, root: string) {
    this.#socket = socket
    this.#harness = harness
    this.#root = root
    this.#commands = new Commands(harness)
    this.#sampler = new Sampler(harness, sample => this.#append('samples', sample))
    socket.on(OPEN, this.#open)
    socket.on(COMMAND, this.#command)
    socket.on('vite:client:disconnect', this.#gone)
  }

  /** How many pages are open. */
  get size(): number {
    return this.#clients.size
  }

  /** Leaves the pages alone; their connections are Vite's to end. */
  close(): void {
    this.#socket.off(OPEN, this.#open)
    this.#socket.off(COMMAND, this.#command)
    this.#socket.off('vite:client:disconnect', this.#gone)
    this.#clients.clear()
    this.#rest()
  }

  readonly #open = (_: unknown, client: WebSocketClient): void => {
    // A snapshot is dear, and one is enough: a page that comes back has a new connection.
    if (this.#clients.has(client) || this.#harness.visitors.standing(client) === 'stranger') return
    if (this.#clients.size === 0) this.#wake()
    // The others get what is new first: from then on all know the same.
    this.#flush()
    this.#clients.add(client)
    client.send(SNAPSHOT, this.#snapshot())
  }

  readonly #gone = (_: unknown, client: WebSocketClient): void => {
    if (this.#clients.delete(client) && this.#clients.size === 0) this.#rest()
  }

  readonly #command = (data: unknown, client: WebSocketClient): void => {
    if (!this.#clients.has(client)) return
    void this.#commands.answer(data, client).then(answer => client.send(ANSWER, answer))
  }

  #wake(): void {
    this.#stop = this.#harness.listen({
      ready: () => this.#within(SOON),
      failed: () => this.#within(SOON),
      step: () => this.#within(SOON),
      reload: report => {
        this.#append('reloads', report)
        if (report.outcome !== 'ignored') void this.#sampler.take()
      },
      audit: report => {
        this.#append('audits', report)
        void this.#sampler.take()
      },
      why: report => this.#append('whys', report),
      error: error => this.#append('errors', { ...error, time: timestamp() }),
      progress: task => {
        this.#task = task
        // At once: a snapshot of the heap stops the process for seconds.
        this.#flush()
      }
    })
    void this.#sampler.take()
    this.#within(TICK)
  }

  #rest(): void {
    this.#stop?.()
    this.#stop = undefined
    clearTimeout(this.#timer)
    this.#due = Infinity
    this.#told.clear()
    this.#tree = []
    this.#lists = {}
  }

  #append<K extends keyof Lists>(list: K, item: Lists[K][number]): void {
    // A measurement may end when the last page has gone.
    if (!this.#stop) return
    const items = (this.#lists[list] ??= []) as Lists[K][number][]
    items.push(item)
    this.#within(SOON)
  }

  /** Sees to it that pages are told within `ms`. */
  #within(ms: number): void {
    const at = now()
    const due = Math.max(at + ms, this.#lookedAt + this.#cost / SHARE)
    if (due >= this.#due) return
    clearTimeout(this.#timer)
    this.#due = due
    this.#timer = setTimeout(() => {
      this.#due = Infinity
      attempt(
        () => this.#flush(),
        // One of our timers that throws would end the process; the page shows it once.
        error => this.#failed(error)
      )
      this.#within(this.#harness.history.progress ? TICK_DRAINING : TICK)
    }, due - at).unref()
  }

  #failed(error: unknown): void {
    const message = `the live page cannot show the harness: ${messageOf(error)}`
    if (this.#lastFailure === message) return
    this.#lastFailure = message
    this.#harness.report(new Error(message, { cause: error }))
  }

  #flush(): void {
    const parts: Partial<Parts> = {}
    for (const [name, part] of Object.entries(this.#look())) {
      const json = JSON.stringify(part)
      if (this.#told.get(name as keyof Parts) === json) continue
      this.#told.set(name as keyof Parts, json)
      Object.assign(parts, { [name]: part })
    }
    const delta = { now: timestamp(), parts, lists: this.#lists, task: this.#task }
    const isNew = Object.keys(parts).length + Object.keys(this.#lists).length > 0 || this.#task
    this.#lists = {}
    this.#task = undefined
    if (isNew) for (const client of this.#clients) client.send(DELTA, delta)
  }

  #look(): Parts {
    const start = now()
    const { running, history } = this.#harness
    const { state, pending, dirty, abandoned } = this.#harness.status
    const seen = running ? overview(running) : { fibers: [], boundaries: { total: 0, oldest: [] }, storages: [] }
    if (!history.progress) this.#tree = seen.fibers
    const modules = running?.host.modules().length ?? 0
    this.#lookedAt = now()
    this.#cost = this.#lookedAt - start
    return {
      ...seen,
      fibers: history.progress ? keeping(this.#tree, seen.fibers) : seen.fibers,
      // That a reload runs is the step's to tell.
      harness: { state: state === 'reloading' ? 'running' : state, failed: history.failed ?? null, modules },
      progress: history.progress ?? null,
      waits: running && history.waits ? shownWaits(history.waits(), running) : null,
      files: { pending, dirty, broken: history.failedFor(dirty).map(({ module }) => module) },
      abandoned: abandoned.map(({ provider }) => provider)
    }
  }

  #snapshot(): Snapshot {
    const { history, entry, limits } = this.#harness
    const parts = Object.fromEntries([...this.#told].map(([name, json]) => [name, JSON.parse(json)])) as Parts
    return {
      now: timestamp(),
      root: this.#root,
      entry,
      versions: { node: process.versions.node, vite: version },
      limits,
      ...parts,
      reloads: history.reloads,
      audits: [...history.audits.values()],
      whys: history.whys,
      errors: history.errors,
      samples: this.#sampler.samples
    }
  }
}
