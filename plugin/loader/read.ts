/** Reading a configuration file: its rows as they would run, and where in it something is wrong. */
import { readFileSync } from 'node:fs'
import { attempt } from '../guard/contain.ts'
import type { FileTree, RowOptions } from '../cordis/loader.ts'
import type { Location } from '../report/script.ts'
import { adoptIds } from './diff.ts'

/** What a file has said, and says now. */
export interface Reading {
  tree: FileTree
  file: string
  before: { content?: string; data?: RowOptions[]; rows: RowOptions[] }
  rows: RowOptions[]
}

/**
 * Reads a file whose rows run. The tree has the new content from then on.
 * @throws what makes it no list of rows, with the place; the tree has not changed then.
 */
export async function read(tree: FileTree, file: string): Promise<Reading> {
  const { content, data, root } = tree
  // What is applied may be changed by what follows.
  const before = { content, data, rows: structuredClone(root.data) }
  try {
    await tree.read(true)
  } catch (error) {
    throw located(error, file)
  }
  const rows = tree.applyPatches(tree.data!)
  adoptIds(before.rows, rows)
  return { tree, file, before, rows }
}

/** Lets a tree forget what was read. */
export function unread({ tree, before: { content, data } }: Reading): void {
  Object.assign(tree, { content, data })
}

/** An error in a file, with its place as `describeError` finds it. */
export function located(error: unknown, file: string): unknown {
  if (!(error instanceof Error)) return error
  const { mark, reason } = error as { mark?: { line: number; column: number }; reason?: string }
  const loc = mark ? { line: mark.line + 1, column: mark.column } : placeInJson(error, file)
  const message = reason ?? error.message
  return Object.assign(new Error(message, { cause: error }), loc && { loc: { file, ...loc } })
}

/** Where a row begins. */
export function placeOf(id: string, file: string): Location {
  const lines = textOf(file).split('\n')
  const key = new RegExp(`^(\\W*)["']?id["']?:\\s*["']?${id.replace(/[.*+?^${}()|[\]\\]/g, '\\$&')}\\b`)
  const line = lines.findIndex(text => key.test(text))
  return { file, line: line === -1 ? 1 : line + 1, column: line === -1 ? 1 : key.exec(lines[line]!)![1]!.length + 1 }
}

/** Whether a row has its id from the file; else the loader made one up. */
export function isNamed(id: string, ...contents: (string | undefined)[]): boolean {
  return contents.some(content => content?.includes(id))
}

function placeInJson({ message }: Error, file: string): { line: number; column: number } | undefined {
  const [, position] = /position (\d+)/.exec(message) ?? []
  if (position === undefined) return undefined
  const before = textOf(file).slice(0, Number(position)).split('\n')
  return { line: before.length, column: before.at(-1)!.length }
}

function textOf(file: string): string {
  return attempt(
    () => readFileSync(file, 'utf8'),
    () => ''
  )
}
