/** The lines of a step that takes long: what it waits for, and for how long at most. Pure. */
import colors from 'picocolors'
import type { Waits } from './events.ts'
import { plural } from './report.ts'
import { mapStack } from './script.ts'

/** The first line says what is waited for, the others name it. */
export function slowLines(waits: Waits): string[] {
  const { step, providers, left } = waits
  const limit = left === null ? 'it waits for ever' : `${seconds(left)} left`
  const head = step === 'close' ? 'closing' : 'draining'
  const first = `${colors.yellow(head)} ${providers.join(', ')}: ${what(waits)}  ${colors.dim(`(${limit})`)}`
  return [first, ...parkingLines(waits), ...boundaryLines(waits), ...unloadingLines(waits)]
}

function what({ step, parkingTotal, total, unloading }: Waits): string {
  const open = total > 0 ? plural(total, 'open boundary') : ''
  if (step === 'close') return [`${parkingTotal} not parked`, open].filter(Boolean).join(', ')
  const names = unloading.map(({ name }) => ` of "${name}"`).join(',')
  return open || `a disposer${names} has not ended`
}

function parkingLines({ parking, parkingTotal }: Waits): string[] {
  const lines = parking.map(({ provider, driver, step }) =>
    [driver ?? 'a listener', provider, step === undefined ? '' : colors.dim(step)].filter(Boolean).join('  ')
  )
  return parkingTotal > parking.length ? [...lines, more(parkingTotal - parking.length)] : lines
}

function boundaryLines({ open, total }: Waits): string[] {
  const lines = open.map(
    ({ label, provider, age, opened }) =>
      `${label}  ${seconds(age)}  ${provider}  ${colors.dim(mapStack(openerOf(opened)))}`
  )
  return total > open.length ? [...lines, more(total - open.length)] : lines
}

/** Dependents; that what is replaced unloads is said already. */
function unloadingLines({ unloading }: Waits): string[] {
  return unloading.flatMap(({ name, uses }) =>
    uses.length > 0 ? [`${name}  ${colors.dim(`unloads, since it uses ${uses.join(', ')}`)}`] : []
  )
}

/** The line of a stack that opened a boundary: who called the provider that carries it, or that provider itself. */
function openerOf([carrier = '', ...callers]: string[]): string {
  return callers.find(frame => !/[\\/]node_modules[\\/]|\bnode:/.test(frame)) ?? carrier
}

function more(n: number): string {
  return `and ${n} more`
}

function seconds(ms: number): string {
  return `${(ms / 1000).toFixed(1)} s`
}
