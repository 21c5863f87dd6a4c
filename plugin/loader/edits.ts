/** What a save of configuration files asks for, row by row. */
import type { Fiber } from '../cordis/cordis.ts'
import { type Entry, fiberOf, isFileTree } from '../cordis/loader.ts'
import type { RowReport } from '../report/report.ts'
import { changesOf, place, type Placed, type RowChange } from './diff.ts'
import { isNamed, read, type Reading, unread } from './read.ts'
import type { Rows } from './rows.ts'

/** What has become of one row. */
export interface Edit {
  id: string
  change: RowChange
  reading: Reading
  /** As it is now; `undefined` for one that was removed, or switched off. */
  next: Placed['row'] | undefined
  /** As it runs; `undefined` for one that is new. */
  entry: Entry | undefined
  /** Whether its plugin takes a new config as it runs: it is not taken down. */
  isLive: boolean
}

/** What is asked for, and what was read for it. */
export interface Edits {
  readings: Reading[]
  edits: Edit[]
}

/**
 * Reads files whose rows run.
 * @throws what makes one of them no list of rows, with the place; nothing has changed then.
 */
export async function editsOf(files: readonly string[], rows: Rows): Promise<Edits> {
  const trees = rows.files()
  const readings: Reading[] = []
  try {
    for (const file of files) {
      const tree = trees.get(file)
      if (tree) readings.push(await read(tree, file))
    }
    const edits = readings.flatMap(reading => editsIn(reading, readings))
    return { readings, edits }
  } catch (error) {
    for (const reading of readings) unread(reading)
    throw error
  }
}

/** What has become of the rows of one file. What an including row says of them may have changed with it. */
function editsIn(reading: Reading, readings: Reading[]): Edit[] {
  const { tree, before, rows } = reading
  const isTrue = (disabled: unknown, id: string) => isOff(disabled, tree.store[id])
  const after = place(rows, isTrue)
  const changes = changesOf(place(before.rows, isTrue), after)
  for (const [id, { isOff }] of after) {
    const entry = tree.store[id]
    // Its module could not be loaded before.
    if (entry && !entry.fiber && !isOff && !changes.has(id)) changes.set(id, 'added')
  }
  const edits: Edit[] = []
  for (const [id, change] of changes) {
    const entry = tree.store[id]
    const next = change === 'removed' || change === 'disabled' ? undefined : after.get(id)!.row
    const fiber = entry && fiberOf(entry)
    const isLive = change === 'configured' && fiber !== undefined && takesConfig(fiber)
    const isSameFile = isLive && pathOf(next) === pathOf(entry!.options)
    if (isSameFile) edits.push(...editsBelow(entry!, next!, readings))
    edits.push({ id, change, reading, next, entry, isLive: isSameFile || (isLive && !entry!.subtree) })
  }
  return edits
}

function editsBelow({ subtree }: Entry, { config }: Placed['row'], readings: Reading[]): Edit[] {
  if (!isFileTree(subtree) || readings.some(({ tree }) => tree === subtree)) return []
  const { content, data = [], filename } = subtree
  const rows = subtree.applyPatches(data, (config as { patches?: unknown } | undefined)?.patches)
  const before = { content, data, rows: structuredClone(subtree.root.data) }
  const reading: Reading = { tree: subtree, file: filename, before, rows }
  return editsIn(reading, readings).map(edit => ({ ...edit, reading }))
}

function pathOf(row: Placed['row'] | undefined): unknown {
  return (row?.config as { path?: unknown } | undefined)?.path
}

/** A switch may be an expression, which only a row that runs can evaluate: one that is new is taken to be on. */
function isOff(disabled: unknown, entry: Entry | undefined): boolean {
  const expression = (disabled as { __jsExpr?: string } | null | undefined)?.__jsExpr
  return Boolean(expression === undefined ? disabled : entry?.evaluate(expression))
}

/** Whether a plugin listens to its updates, or has a config of which parts are handed on as they change. */
function takesConfig(fiber: Fiber): boolean {
  const listeners = fiber._hooks?.['internal/update']
  return (listeners !== undefined && [...listeners].length > 0) || isVolatile(fiber.runtime?.Config, new Set())
}

interface Schema {
  meta?: { volatile?: boolean }
  dict?: Record<string, Schema>
}

function isVolatile(schema: Schema | undefined, seen: Set<Schema>): boolean {
  if (!schema || seen.has(schema)) return false
  seen.add(schema)
  return schema.meta?.volatile === true || Object.values(schema.dict ?? {}).some(part => isVolatile(part, seen))
}

/** The rows of a report. */
export function rowReports({ edits }: Edits): RowReport[] {
  return edits.map(({ id, change, next, entry, reading }) => {
    const { name } = next ?? entry!.options
    const isOwn = isNamed(id, reading.before.content, reading.tree.content)
    return { id, row: isOwn ? id : name, name, change, file: reading.file }
  })
}
