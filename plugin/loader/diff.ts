/** From the rows that a file had to those that it has now. Pure: no vite, no cordis. */
import { isDeepStrictEqual } from 'node:util'
import type { RowOptions } from '../cordis/loader.ts'

/** What becomes of a row. */
export type RowChange = 'added' | 'removed' | 'replaced' | 'configured' | 'enabled' | 'disabled'

/** A row in its place. */
export interface Placed {
  row: RowOptions
  /** Id of the group that it is in. */
  group: string | undefined
  /** Whether it is switched off, or a group around it is. */
  isOff: boolean
  isGroup: boolean
}

/** Every row of a file by its id, groups before what they hold. */
export function place(
  rows: readonly RowOptions[],
  isTrue: (disabled: unknown, id: string) => boolean
): Map<string, Placed> {
  const placed = new Map<string, Placed>()
  const walk = (list: readonly RowOptions[], group: string | undefined, isOutside: boolean) => {
    for (const row of list) {
      const isOff = isOutside || isTrue(row.disabled, row.id)
      const isGroup = isGroupRow(row)
      placed.set(row.id, { row, group, isOff, isGroup })
      if (isGroup) walk(row.config as RowOptions[], row.id, isOff)
    }
  }
  walk(rows, undefined, false)
  return placed
}

function isGroupRow({ group, config, name }: RowOptions): boolean {
  return Array.isArray(config) && (group === true || /(^|[-/:])group$/.test(name))
}

/**
 * What has become of each row that is not as it was. A row that gets another plugin, another place, or other services to
 * wait for is replaced; of one that is switched off before and after nothing becomes.
 */
export function changesOf(
  before: ReadonlyMap<string, Placed>,
  after: ReadonlyMap<string, Placed>
): Map<string, RowChange> {
  const changes = new Map<string, RowChange>()
  for (const [id, { isOff, isGroup }] of before) if (!after.has(id) && (!isOff || isGroup)) changes.set(id, 'removed')
  for (const [id, next] of after) {
    const old = before.get(id)
    const change = old ? changeOf(old, next) : next.isOff && !next.isGroup ? undefined : 'added'
    if (change) changes.set(id, change)
  }
  return changes
}

function changeOf(old: Placed, next: Placed): RowChange | undefined {
  // A group always runs: only what it holds is switched off.
  if (old.isOff && next.isOff && !next.isGroup) return undefined
  if (!next.isGroup && old.isOff !== next.isOff) return next.isOff ? 'disabled' : 'enabled'
  const differs = (key: keyof RowOptions) => !isDeepStrictEqual(old.row[key] ?? undefined, next.row[key] ?? undefined)
  if (old.group !== next.group || old.isGroup !== next.isGroup) return 'replaced'
  if (differs('name') || differs('inject') || differs('intercept')) return 'replaced'
  return differs('isolate') || (!next.isGroup && differs('config')) ? 'configured' : undefined
}

/**
 * Gives rows without an id those of the rows that they were: of the same name in the same group, with the same config where
 * there is one, and new ids to the others. The loader would give each a new one, and restart it.
 */
export function adoptIds(before: readonly RowOptions[], after: readonly RowOptions[]): void {
  const given = new Set(after.map(({ id }) => id))
  const left = before.filter(({ id }) => !given.has(id))
  for (const isSame of [(a: RowOptions, b: RowOptions) => isDeepStrictEqual(a.config, b.config), () => true]) {
    for (const row of after) {
      if (row.id !== undefined) continue
      const index = left.findIndex(old => old.name === row.name && isSame(old, row))
      if (index !== -1) row.id = left.splice(index, 1)[0]!.id
    }
  }
  for (const row of after) {
    // Never a number alone: the loader has rows by id in an object, where such a one would come first.
    row.id ??= `r${Math.random().toString(16).slice(2, 9)}`
    const old = before.find(({ id }) => id === row.id)
    if (isGroupRow(row))
      adoptIds(old && isGroupRow(old) ? (old.config as RowOptions[]) : [], row.config as RowOptions[])
  }
}
