/** A harness whose provider gives parts of itself to whatever could keep them: one kind of retainer per part. */

/** One kind of retainer. */
export interface Plant {
  /** Written in the provider's module; keeps `part`. */
  plant: string
  /** What it is said to be. */
  what: string
  /** The file that is named, and a piece of the line. */
  at?: [file: string, line: string]
  /** What is named on the way. */
  via?: string
}

const HERE = 'agents.ts'

/** With this flag of Node 22 a handle holds its context where a snapshot does not show whose it is. */
const isHidden = [...process.execArgv, process.env['NODE_OPTIONS'] ?? ''].some(flags =>
  flags.includes('--experimental-async-context-frame')
)

/** By kind; each in a function of its own, so that none shares a scope with another. */
export const plants: Record<string, Plant> = {
  'an array of a module': {
    plant: `remember(part)`,
    what: 'module-level array "history"',
    at: ['src/history.ts', 'const history'],
    via: 'variable "history"[0].part'
  },
  'a Map of a module': {
    plant: `tables.map(part)`,
    what: 'module-level Map "byName"',
    at: ['src/tables.ts', 'const byName'],
    via: '.get("agent 1"): Part'
  },
  'a Set of a module': {
    plant: `tables.set(part)`,
    what: 'module-level Set "all"',
    at: ['src/tables.ts', 'const all']
  },
  'a WeakMap whose key lives': {
    plant: `tables.weak(part)`,
    what: 'module-level WeakMap "notes"',
    at: ['src/tables.ts', 'const notes']
  },
  'a default export': {
    plant: `defaults.one = part`,
    what: 'module-level object "default"',
    at: ['src/defaults.ts', 'export default']
  },
  'an object of a module': {
    plant: `tables.object(part)`,
    what: 'module-level object "registry"',
    at: ['src/tables.ts', 'const registry']
  },
  'a variable of a module': {
    plant: `tables.variable(part)`,
    what: 'module-level variable "last"',
    at: ['src/tables.ts', 'let last']
  },
  'a closure in an array of another module': {
    plant: `hooks.push(function onReload() { return part })`,
    what: 'module-level array "hooks"',
    at: ['src/hooks.ts', 'export const hooks'],
    via: 'function onReload'
  },
  'a field of a living service': {
    plant: `ctx.sessions.add(part)`,
    what: 'property "open" of service "sessions"',
    at: ['src/sessions.ts', 'constructor('],
    via: '.get("s1"): Part'
  },
  'a static field': {
    plant: `Registry.kept.push(part)`,
    what: 'static field "kept" of class Registry',
    at: ['src/registry.ts', 'class Registry']
  },
  'a private static field': {
    plant: `Registry.hide(part)`,
    what: 'static field "#hidden" of class Registry',
    at: ['src/registry.ts', 'class Registry']
  },
  'a global variable': {
    plant: `globalThis.whyLeaked = part`,
    what: 'global variable "whyLeaked"'
  },
  'a listener of an EventEmitter': {
    plant: `bus.on('tick', function onTick() { return part })`,
    what: 'listener "onTick" on an EventEmitter, event "tick"',
    at: [HERE, 'onTick'],
    via: 'variable "bus"'
  },
  'one of several listeners, called once': {
    plant: `bus.on('tock', ignore); bus.once('tock', function onTock() { return part })`,
    what: 'listener "onTock" on an EventEmitter, event "tock"',
    at: [HERE, 'onTock']
  },
  'a method bound to it as a listener': {
    plant: `bus.on('bound', part.speak.bind(part))`,
    what: 'listener "speak" on an EventEmitter, event "bound"',
    at: [HERE, 'speak()']
  },
  'a listener of a signal': {
    plant: `const stop = () => part; process.on('SIGUSR2', stop)`,
    what: 'process.on("SIGUSR2") listener "stop"',
    at: [HERE, 'SIGUSR2']
  },
  'a listener of an AbortSignal': {
    plant: `controller.signal.addEventListener('abort', function onAbort() { return part })`,
    what: 'listener "onAbort" on an AbortSignal, event "abort"',
    at: [HERE, 'onAbort']
  },
  'a listener of a server': {
    plant: `const server = createServer(); server.on('connection', function onConnection() { return part })
      server.listen(0, '127.0.0.1'); handles.push(server)`,
    what: 'listener "onConnection" on a Server, event "connection"',
    at: [HERE, 'onConnection']
  },
  'a listener of Cordis on the root context': {
    plant: `ctx.root.on('why/told', function onTold() { return part })`,
    what: 'listener "onTold" on a Cordis context, event "why/told"',
    at: [HERE, 'onTold']
  },
  'a parser in the pool of node:http': {
    plant: `const { parsers } = process.getBuiltinModule('_http_common'); const parser = parsers.alloc()
      parser.onIncoming = () => part; parsers.list.push(parser); handles.push({ close: () => { parser.onIncoming = null } })`,
    what: 'HTTP parser of Node itself'
  },
  'a value that a debugger was shown': {
    plant: `const session = new Session(); session.connect(); globalThis.whyShown = part
      session.post('Runtime.evaluate', { expression: 'whyShown' }); delete globalThis.whyShown
      handles.push({ close: () => session.disconnect() })`,
    what: 'the console of a debugger'
  },
  'a watched folder': {
    plant: `handles.push(watch('.', function onChange() { return part }))`,
    what: 'listener "onChange" on an FSWatcher, event "change"',
    at: [HERE, 'onChange']
  },
  'the async context of a server': {
    plant: `const server = new AsyncLocalStorage().run(part, () => createServer().listen(0, '127.0.0.1')); handles.push(server)`,
    what: isHidden ? 'async context of a handle of Node itself' : 'async context of a Server'
  },
  'an interval': {
    plant: `const interval = setInterval(() => part, 1e6); handles.push(interval)`,
    what: 'setInterval',
    at: [HERE, 'setInterval']
  },
  'a long timeout': {
    plant: `const timeout = setTimeout(function late() { return part }, 1e6); handles.push(timeout)`,
    what: 'setTimeout',
    at: [HERE, 'late']
  },
  'an argument of a timeout': {
    plant: `const timeout = setTimeout(ignore, 1e6, part); handles.push(timeout)`,
    what: 'setTimeout',
    at: ['src/drivers.ts', 'ignore']
  },
  'a suspended async function': {
    plant: `void drive(part)`,
    what: 'async function drive, suspended',
    at: ['src/drivers.ts', 'function drive']
  },
  'a suspended method of its own': {
    plant: `void part.wait(never)`,
    what: 'async function wait, suspended',
    at: [HERE, 'wait(']
  },
  'a generator that is not finished': {
    plant: `const steps = walk(part); steps.next(); others.push(steps)`,
    what: 'generator walk, suspended',
    at: ['src/drivers.ts', 'function* walk']
  },
  'a reaction of a promise that never settles': {
    plant: `void never.then(function onDone() { return part })`,
    what: 'callback "onDone" of a promise that is not settled',
    at: [HERE, 'onDone']
  },
  'a stored Error': {
    // On a stack of its own: that of the constructor holds the whole provider.
    plant: `void Promise.resolve(part).then(self => note(fail.call(self)))`,
    what: 'stored Error, its stack holds function "fail"',
    at: ['src/errors.ts', 'const errors'],
    via: 'variable "errors"'
  },
  'the async context of a loop that never ends': {
    plant: `new AsyncLocalStorage().run(part, () => void loop())`,
    what: 'async context of the suspended function loop',
    at: ['src/drivers.ts', 'function loop']
  },
  'the async context of a loop that sleeps': {
    plant: `new AsyncLocalStorage().run(part, () => void sleep())`,
    what: 'async context of a setTimeout that function sleep awaits',
    at: ['src/drivers.ts', 'function sleep']
  },
  'the async context of a timer of node:timers/promises': {
    plant: `new AsyncLocalStorage().run(part, () => void nap())`,
    what: 'async context of a setTimeout that function nap awaits',
    at: ['src/drivers.ts', 'function nap']
  },
  'the async context of an interval': {
    plant: `const interval = new AsyncLocalStorage().run(part, () => setInterval(ignore, 1e6)); handles.push(interval)`,
    what: 'async context of a setInterval',
    at: ['src/drivers.ts', 'ignore']
  }
}

const provider = `
  import { Service } from 'cordis'
  import { watch } from 'node:fs'
  import { Session } from 'node:inspector'
  import { createServer } from 'node:net'
  import { bus, controller } from './src/bus.ts'
  import defaults from './src/defaults.ts'
  import { drive, ignore, loop, nap, never, sleep, walk } from './src/drivers.ts'
  import { note } from './src/errors.ts'
  import { remember } from './src/history.ts'
  import { hooks, others } from './src/hooks.ts'
  import { Registry } from './src/registry.ts'
  import { tables } from './src/tables.ts'

  // The builtin, not the one that the harness' modules import: that leaves nothing in the frame of a loop.
  const { AsyncLocalStorage } = process.getBuiltinModule('node:async_hooks')
  export const version = 1
  class Part {
    speak() {}
    async wait(promise) { await promise; return this }
  }
  function fail(this: Part) { return new Error('stored') }
  const plants = {
${Object.entries(plants)
  .map(([kind, { plant }]) => `    ${JSON.stringify(kind)}: (part, ctx) => { ${plant} }`)
  .join(',\n')}
  }
  export default class Agents extends Service {
    static inject = ['sessions']
    parts: Record<string, Part> = {}
    constructor(ctx: any) {
      super(ctx, 'agents')
      if (version > 1) return
      for (const [kind, plant] of Object.entries<any>(plants)) plant(this.parts[kind] = new Part(), ctx)
    }
  }`

/** The files of the harness. */
export const files: Record<string, string> = {
  'harness.ts': `
    import Agents from './agents.ts'
    import Sessions from './src/sessions.ts'
    export default function harness(ctx: any) { ctx.plugin(Sessions); ctx.plugin(Agents) }`,
  [HERE]: provider,
  'src/history.ts': `
    let counter = 0
    const history: object[] = []
    export function remember(part: object) { history.push({ part, counter: counter++ }) }`,
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
  'src/defaults.ts': `
    const other = 1
    export default { other }`,
  'src/hooks.ts': `
    export const hooks: (() => unknown)[] = []
    export const others: unknown[] = []`,
  'src/bus.ts': `
    import { EventEmitter } from 'node:events'
    export const bus = new EventEmitter()
    export const controller = new AbortController()`,
  'src/drivers.ts': `
    import { setTimeout as setTimeoutOf } from 'node:timers/promises'
    export const never = new Promise<void>(() => {})
    export const ignore = () => {}
    export async function drive(part: object) {
      await never
      return part
    }
    export async function loop() {
      for (;;) await Promise.resolve().then(() => never)
    }
    export async function sleep() {
      await new Promise(resolve => handles.push(setTimeout(resolve, 1e6)))
    }
    export async function nap() {
      await setTimeoutOf(1e6, undefined, { ref: false })
    }
    export function* walk(part: object) {
      yield 1
      yield part
    }`,
  'src/errors.ts': `
    const errors: Error[] = []
    export const note = (error: Error) => errors.push(error)`,
  'src/registry.ts': `
    export class Registry {
      static kept: object[] = []
      static #hidden: object
      static hide(part: object) { Registry.#hidden = part }
      static read() { return Registry.#hidden }
    }`,
  'src/sessions.ts': `
    import { Service } from 'cordis'
    export default class Sessions extends Service {
      open = new Map<string, object>()
      constructor(ctx: any) { super(ctx, 'sessions') }
      add(part: object) { this.open.set('s1', part) }
    }`
}
