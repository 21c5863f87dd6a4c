/**
 * Text that is not ours (labels, names, messages of errors) on its way to a terminal or a page, where control characters
 * would move the cursor and bidirectional ones would show a line in another order than it has.
 */
import { stripVTControlCharacters } from 'node:util'

const BIDI = '\\u061c\\u200e\\u200f\\u202a-\\u202e\\u2066-\\u2069'
const BREAKS = new RegExp(`[\\p{Cc}\\u2028\\u2029${BIDI}]+`, 'gu')
const INVISIBLE = new RegExp(`(?![\\n\\t])[\\p{Cc}\\u2028\\u2029${BIDI}]+`, 'gu')
const ODD = new RegExp(BREAKS.source, 'u')

/** What has lines of its own in what is told; all other text is one line. */
const LINES = new Set(['frame', 'stack'])

/** The text as one line. */
export function printableLine(text: string): string {
  return text.search(ODD) < 0 ? text : stripVTControlCharacters(text).replace(BREAKS, ' ')
}

/** The text in its lines. */
export function printableLines(text: string): string {
  if (text.search(ODD) < 0) return text
  const lines = stripVTControlCharacters(text).replaceAll('\r\n', '\n')
  // As wide as before: a frame has a marker below.
  return lines.replace(INVISIBLE, match => ' '.repeat(match.length))
}

/** The same value with every text in it printable: itself, where all of it was. Made for what can be JSON. */
export function printable<T>(value: T): T {
  return clean(value, '') as T
}

function clean(value: unknown, name: string): unknown {
  if (typeof value === 'string') return LINES.has(name) ? printableLines(value) : printableLine(value)
  if (typeof value !== 'object' || value === null) return value
  if (Array.isArray(value)) {
    const items = value.map(item => clean(item, name))
    return items.some((item, i) => item !== value[i]) ? items : value
  }
  const entries = Object.entries(value)
  const cleaned = entries.map(([key, part]) => [key, clean(part, key)] as const)
  return cleaned.some(([, part], i) => part !== entries[i]![1]) ? Object.fromEntries(cleaned) : value
}
