/** Rows as a file has them now, through the loader that owns them; or as they were. */
import { isActive, isBusy, isUnloading } from '../cordis/fibers.ts'
import { type Fiber, FiberState } from '../cordis/cordis.ts'
import { type Entry, fiberOf } from '../cordis/loader.ts'
import { messageOf } from '../guard/contain.ts'
import { within } from '../guard/within.ts'
import { failureOf, missingOf } from '../reload/install.ts'
import type { Location } from '../report/script.ts'
import type { Rows, RunningRows } from './rows.ts'
import type { Edit, Edits } from './edits.ts'
import type { GoingRows } from './going.ts'
import { placeOf, unread } from './read.ts'

/**
 * Makes the rows of the files those that run, and waits for them and for who depends on them. Returns what is worth a word.
 * @throws what a row's plugin throws, or an error that names who did not come back.
 */
export async function installRows(edits: Edits, going: GoingRows, running: RunningRows): Promise<unknown[]> {
  await update(edits, running, ({ rows }) => rows)
  for (const edit of edits.edits) await assertRuns(edit, going, running)
  return dependentsOf(going)
}

/** Makes the rows of the files those that ran before. Returns what did not come back. */
export async function restoreRows(edits: Edits, going: GoingRows, running: RunningRows): Promise<unknown[]> {
  const touched = edits.edits.filter(({ isLive }) => !isLive)
  for (const { id, reading } of touched) endRow(reading.tree.store[id])
  await update({ ...edits, edits: [] }, running, ({ before }) => structuredClone(before.rows))
  for (const reading of edits.readings) unread(reading)
  const failures: unknown[] = []
  for (const { id, reading, entry } of touched) {
    const wasActive = entry && [...going.active].some(fiber => fiber === fiberOf(entry))
    const fiber = fiberOf(reading.tree.store[id] ?? ({} as Entry))
    if (!wasActive || (fiber && isActive(fiber))) continue
    const cause = fiber && (await failureOf(fiber))
    failures.push(
      new Error(`row "${id}" did not come back: ${cause === undefined ? 'it is not active' : messageOf(cause)}`)
    )
  }
  return failures
}

async function update(
  { readings, edits }: Edits,
  running: RunningRows,
  rowsOf: (reading: Edits['readings'][number]) => Edits['readings'][number]['rows']
): Promise<void> {
  // The loader would go on with the plugin that it has under this id, or take the row down where it is put.
  for (const { change, entry } of edits) if (change === 'replaced') endRow(entry)
  for (const reading of readings) await reading.tree.root.update(rowsOf(reading))
  const { rows, fibers, limits, stopped } = running
  await within(limits.deadline, rows.settled(fibers), stopped)
}

function endRow(entry: Entry | undefined): void {
  // Its file is not to be written for that.
  if (entry && entry.parent.tree.store[entry.options.id] === entry) entry.parent.remove(entry.options.id, true)
}

/** A row that has to run does so, or waits for a service; one that ran before, and waits now, has failed. */
async function assertRuns(edit: Edit, going: GoingRows, { rows }: RunningRows): Promise<void> {
  const { id, reading, next } = edit
  const entry = reading.tree.store[id]
  if (!next || !entry || entry.disabled) return
  const failure = await failureOfRow(entry, going, rows)
  if (!failure) return
  const { message, cause } = failure
  throw Object.assign(new Error(`row "${id}": ${message}`, { cause }), placed(cause, placeOf(id, reading.file)))
}

async function failureOfRow(
  entry: Entry,
  going: GoingRows,
  rows: Rows
): Promise<{ message: string; cause?: unknown } | undefined> {
  const fiber = fiberOf(entry)
  const thrown = (cause: unknown) => ({ message: messageOf(cause), cause })
  if (!fiber) return thrown(rows.errorOf(entry) ?? new Error('its module could not be loaded'))
  if (isBusy(fiber)) return { message: 'it is still loading' }
  if (isActive(fiber)) return undefined
  const cause = await failureOf(fiber)
  if (cause !== undefined) return thrown(cause)
  const { id } = entry.options
  const hasRun = going.instances.some(instance => instance.entry?.options.id === id && going.active.has(instance.fiber))
  return hasRun ? { message: `it waits for ${missingOf(fiber)}` } : undefined
}

/** Where what was thrown has no place of its own, it is the row's. */
function placed(cause: unknown, { file, line, column }: Location): object {
  const { loc, stack } = (cause ?? {}) as { loc?: unknown; stack?: string }
  const isOwn = loc !== undefined || (stack !== undefined && !/ValidationError|^TypeError: invalid config/.test(stack))
  return isOwn ? {} : { loc: { file, line, column: column - 1 } }
}

/** Who ran on a service of what went: back, or waiting for one that the file has taken away, which is worth a word. */
async function dependentsOf({ dependents, active }: GoingRows): Promise<unknown[]> {
  const notes: unknown[] = []
  for (const fiber of dependents) {
    if (!active.has(fiber) || fiber.uid === null || isActive(fiber) || isUnloading(fiber)) continue
    const error = await notBack(fiber)
    if (fiber.state !== FiberState.PENDING) throw error
    notes.push(error)
  }
  return notes
}

async function notBack(fiber: Fiber): Promise<Error> {
  const cause = isBusy(fiber) ? undefined : await failureOf(fiber)
  const why = cause === undefined ? `it waits for ${missingOf(fiber)}` : messageOf(cause)
  return new Error(`dependent "${fiber.name}" did not come back: ${why}`, { cause })
}
