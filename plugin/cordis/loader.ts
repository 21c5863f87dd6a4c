/** Cordis' loader, as far as it is used here; the same in `@deepseek-ai/cordis-plugin-loader` and `@cordisjs/plugin-loader`. */
import type { Context, Fiber } from './cordis.ts'

/** A row of a configuration file. */
export interface RowOptions {
  id: string
  name: string
  config?: unknown
  group?: boolean | null
  /** A switch, or an expression (`!!js`) that gives one. */
  disabled?: unknown
  inject?: unknown
  intercept?: unknown
  isolate?: unknown
}

/** A row that the loader has taken up. */
export interface Entry {
  id: string
  options: RowOptions
  ctx: Context
  parent: Group
  /** What runs of it; in `cordis` the handle that `ctx.plugin()` returned. */
  fiber?: Fiber
  /** What it holds when its plugin is a group, or includes a file. */
  subgroup?: Group
  subtree?: Tree
  readonly disabled: boolean
  evaluate(expression: string): unknown
  /** Imports its module and applies it, where it does not run and should. */
  refresh(): Promise<void>
  /** Only in `cordis`, where the loader evaluates expressions before it applies the plugin. */
  _resolveConfig?(plugin: unknown): unknown
}

/** Rows beside each other. */
export interface Group {
  ctx: Context
  tree: Tree
  data: RowOptions[]
  /** Ends a row; the file is not written when `isDispose`. */
  remove(id: string, isDispose: boolean): void
  /** Makes these the rows: what has changed is applied, what is the same goes on. */
  update(rows: RowOptions[]): Promise<void>
}

/** The rows of one file, by id, those in groups included; or those that are in no file. */
export interface Tree {
  ctx: Context & { baseUrl?: string }
  root: Group
  store: Record<string, Entry>
  entries(): Iterable<Entry>
  /** Resolves when no row is being imported, and none loads or unloads. */
  await(): Promise<void>
  filename?: string
}

/** The rows of a file. */
export interface FileTree extends Tree {
  filename: string
  /** What was read last, and its rows. */
  content?: string
  data?: RowOptions[]
  /** Reads the file. @throws what makes it no list of rows; nothing has changed then. */
  read(force: boolean): Promise<boolean>
  /** The rows with what the including row says of them. */
  applyPatches(data: RowOptions[], patches?: unknown): RowOptions[]
}

/** The service `ctx.loader`. */
export interface Loader extends Tree {
  /** What imports the modules of rows, where it is set. */
  internal?: { import(name: string, base: string | undefined): Promise<unknown> }
  create(options: Omit<RowOptions, 'id'>): Promise<string>
  unwrapExports(exports: unknown): unknown
}

/** The fiber that a row runs as. */
export function fiberOf({ fiber }: Entry): Fiber | undefined {
  return fiber?.ctx.fiber
}

/** Whether rows are those of a file that can be read again. */
export function isFileTree(tree: Tree | undefined): tree is FileTree {
  const { filename, read, applyPatches } = (tree ?? {}) as Partial<FileTree>
  return typeof filename === 'string' && typeof read === 'function' && typeof applyPatches === 'function'
}
