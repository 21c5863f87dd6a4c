/** What the command takes as an option's value. */
import { existsSync } from 'node:fs'
import { resolve } from 'node:path'

type Parsed = Record<string, unknown>

/** `maxHeapSlope` as it is typed: `--max-heap-slope`. */
const flag = (name: string) => `--${name.replace(/[A-Z]/g, letter => `-${letter.toLowerCase()}`)}`

/**
 * An option as text; a file may be called `1`.
 * @throws when it is given twice, and when it is needed and not given.
 */
export function textOf(options: Parsed, name: string, needed: string): string
export function textOf(options: Parsed, name: string): string | undefined
export function textOf(options: Parsed, name: string, needed?: string): string | undefined {
  const value = options[name]
  if (Array.isArray(value)) throw new Error(`option "${flag(name)}" is given ${value.length} times`)
  if (value !== undefined && value !== '') return String(value)
  if (needed !== undefined) throw new Error(`option "${flag(name)}" is missing: ${needed}`)
  return undefined
}

/**
 * An option as a number.
 * @throws with what it takes, for anything else.
 */
export function numberOf(
  options: Parsed,
  name: string,
  { least, isWhole = false }: { least: number; isWhole?: boolean }
) {
  const value = options[name]
  const number = typeof value === 'number' ? value : Number.NaN
  if (number >= least && (!isWhole || Number.isSafeInteger(number))) return number
  const takes = `${isWhole ? 'a whole number' : 'a number'} of ${least} or more`
  throw new Error(`option "${flag(name)}" takes ${takes}, got ${JSON.stringify(value)}`)
}

/** An option as a path: what is there from the working directory, else what it was given as, to be found from Vite's root. */
export function pathOf(options: Parsed, name: string, needed: string): string
export function pathOf(options: Parsed, name: string): string | undefined
export function pathOf(options: Parsed, name: string, needed?: string): string | undefined {
  const text = needed === undefined ? textOf(options, name) : textOf(options, name, needed)
  const here = text === undefined ? undefined : resolve(text)
  return here !== undefined && existsSync(here) ? here : text
}
