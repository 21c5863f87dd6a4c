/** A harness whose provider hands parts of itself to everything that could keep them: one way per part. */
import type { Retainer } from '../plugin/report.ts'

/** One way to keep an object, as the provider's module writes it: `part` is the object. */
interface Plant {
  /** Imports that the code needs. */
  imports?: string
  code: string
  /** What is said to keep it. */
  what: string
  /** The file that is named, and a piece of the line in it. */
  at?: [file: string, line: string]
  /** A thing that is to be named on the way. */
  via?: string
}

const files = {
  'src/history.ts': `
    let counter = 0
    const history: object[] = []
    export function remember(part: object) { counter++; history.push({ part, counter }) }`,
  'src/tables.ts': `
    const byName = new Map<string, object>()
    const all = new Set<object>()
    const key = {}
    const notes = new WeakMap<object, object>()
    const registry: Record<string, object> = {}
    let last: unknown
    export const tables = {
      map: (part: object) => byName.set('agent 1', part),
      set: (part: object) => all.add(part),
      weak: (part: object) => notes.set(key, part),
      object: (part: object) => { registry.one = part },
      variable: (part: object) => { last = part },
      read: () => last
    }`,
  'src/hooks.ts': `
    export const [hooks, others]: (() => unknown)[][] = [[], []]`,
  'src/bus.ts': `
    import { EventEmitter } from 'node:events'
    export const bus = new EventEmitter()`,
  'src/drivers.ts': `
    export const never = new Promise<void>(() => {})
    export async function drive(part: object) {
      await never
      return part
    }
    export async function loop() {
      for (;;) await gate('loop').promise
    }
    export const waiting = async (part: { sleep(): Promise<void> }) => {
      await part.sleep()
      return part
    }`,
  'src/errors.ts': `
    const errors: Error[] = []
    export const note = (error: Error) => errors.push(error)`,
  'src/registry.ts': `
    export class Registry { static kept: object[] = []; static #hidden: object; static hide(part: object) { Registry.#hidden = part } }`,
  'src/sessions.ts': `
    import { Service } from 'cordis'
    export default class Sessions extends Service {
      #open = new Map<string, object>()
      constructor(ctx: any) { super(ctx, 'sessions') }
      add(part: object) { this.#open.set('s1', part) }
    }`
} satisfies Record<string, string>
