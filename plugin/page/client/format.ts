/** Numbers, times and paths as the page writes them. Pure. */
import type { ProviderReport } from '../../report/report.ts'

/** A duration: `4 ms`, `1.2 s`, `3 min 5 s`, `2 h 10 min`. */
export function duration(ms: number): string {
  if (ms < 0.5) return '0 ms'
  if (ms < 1000) return `${Math.round(ms)} ms`
  if (ms < 60_000) return `${(ms / 1000).toFixed(1)} s`
  const seconds = Math.floor(ms / 1000)
  if (seconds < 3600) return `${Math.floor(seconds / 60)} min ${seconds % 60} s`
  return `${Math.floor(seconds / 3600)} h ${Math.floor((seconds % 3600) / 60)} min`
}

/** Bytes as megabytes. */
export function megabytes(bytes: number): string {
  return `${(bytes / 1e6).toFixed(bytes > 0 && bytes < 1e7 ? 1 : 0)} MB`
}

/** Microseconds. */
export function microseconds(value: number): string {
  return `${value > 0 && value < 10 ? value.toFixed(1) : Math.round(value)} µs`
}

/** A whole number with its thousands apart. */
export function whole(value: number): string {
  return value.toLocaleString('en')
}

/** A number and its noun. */
export function plural(n: number, noun: string): string {
  const ending = n === 1 ? noun : noun.endsWith('y') ? `${noun.slice(0, -1)}ies` : `${noun}s`
  return `${whole(n)} ${ending}`
}

/** A time of day. */
export function timeOfDay(time: number): string {
  return new Date(time).toTimeString().slice(0, 8)
}

/** A path relative to the root where it is below it. */
export function shorten(file: string, root: string): string {
  return file.startsWith(`${root}/`) ? file.slice(root.length + 1) : file
}

/** The generations of a provider in a report, e.g. `agents 4 → 5`. */
export function generationOf({ name, from, to }: Pick<ProviderReport, 'name' | 'from' | 'to'>, arrow = '→'): string {
  if (to === null) return `${name} ${from} removed`
  return from === to ? `${name} ${from}` : `${name} ${from} ${arrow} ${to}`
}
