/** Which function, script and module the things of a heap come from. */
import type { Heap } from './heap.ts'

/** A place in a script as V8 ran it; line and column count from 0. */
export interface Place {
  /** The script's name, e.g. `/app/agents.ts?v=3`. */
  script: string
  line: number
  column: number
}

/** Where something was written: a place, the declaration of a variable at the level of a module, or a module. */
export type At = Place | { script: string; variable?: string }

/**
 * Whose a script is: of a module that runs, of a version of one that was replaced, of this package, of Node, or of another
 * package.
 */
export type CodeOwner = 'running' | 'retired' | 'own' | 'node' | 'other'

/** What tells whose a script is. */
export interface Scripts {
  /** The scripts of the modules that run, by their names. */
  running: string[]
  /** What the names of this package's own scripts begin with: a path and a URL. */
  own: string[]
}

/** The names of the parameters that a module's code is given. */
const PARAMETERS = /^(?:__vite_ssr_\w+|require|exports|module|__filename|__dirname)$/

/** Knows the scripts of a heap, and the scope of each module. */
export class Code {
  readonly #heap: Heap
  readonly #running: ReadonlySet<string>
  readonly #own: string[]
  /** Names of scripts by V8's number. */
  readonly #names = new Map<number, string>()
  /** The scopes that belong to a module and not to a function in it, with their script. */
  readonly modules = new Map<number, string>()

  constructor(heap: Heap, { running, own }: Scripts) {
    this.#heap = heap
    this.#running = new Set(running)
    this.#own = own
    const asked = new Set<number>()
    for (let node = 0; node < heap.count; node++) {
      if (heap.type(node) !== 'closure') continue
      const name = this.#scriptOf(node)
      const scope = name && this.#moduleScope(heap.get(node, 'context'), asked)
      if (name && scope) this.modules.set(scope, name)
    }
  }

  /** Where a function, or the function of a suspended call, or the class of an object is written. */
  place(node: number): Place | undefined {
    const position = this.#heap.position(node)
    const script = position && this.#names.get(position.script)
    return script ? { script, line: position.line, column: position.column } : undefined
  }

  owner(script: string | undefined): CodeOwner {
    if (script === undefined || script.startsWith('node:')) return 'node'
    if (this.#running.has(script)) return 'running'
    if (/\?v=\d+$/.test(script)) return 'retired'
    return this.#own.some(path => script.startsWith(path)) ? 'own' : 'other'
  }

  /** The scopes of the modules that run. */
  runningScopes(): number[] {
    return [...this.modules].flatMap(([scope, script]) => (this.owner(script) === 'running' ? [scope] : []))
  }

  #scriptOf(closure: number): string | undefined {
    const position = this.#heap.position(closure)
    if (!position) return undefined
    const known = this.#names.get(position.script)
    if (known !== undefined) return known
    const shared = this.#heap.get(closure, 'shared')
    // Renamed after Node 20.
    const script = this.#heap.get(shared, 'script') ?? this.#heap.get(shared, 'script_or_debug_info')
    const name = script === undefined ? undefined : this.#heap.name(script)
    if (name) this.#names.set(position.script, name)
    return name
  }

  /** The outermost scope around `scope` but for that of a module's parameters; `undefined` when it was asked for before. */
  #moduleScope(scope: number | undefined, asked: Set<number>): number | undefined {
    if (scope === undefined || asked.has(scope)) return undefined
    asked.add(scope)
    let outer: number | undefined
    let inner: number | undefined
    for (let at: number | undefined = scope; at !== undefined && this.#heap.isNamed(at, 'system / Context');) {
      inner = outer
      outer = at
      at = this.#heap.get(at, 'previous')
    }
    return outer !== undefined && this.#isParameters(outer) ? inner : outer
  }

  #isParameters(scope: number): boolean {
    const names = this.#heap.edges(scope).flatMap(({ type, name }) => (type === 'context' ? [String(name)] : []))
    return names.length > 0 && names.every(name => PARAMETERS.test(name))
  }
}
