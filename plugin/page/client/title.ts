/** What the tab says while nobody looks at the page: its title, and the colour of its icon. */
import type { ReloadReport } from '../../report/report.ts'
import type { Snapshot } from '../server/protocol.ts'

const GOOD = '#2f9e63'
const WAIT = '#b7791f'
const BAD = '#c53030'

/** What is wrong, worst first, e.g. `kept agents`; the colour that says as much. Pure. */
export function headline(told: Pick<Snapshot, 'harness' | 'files' | 'reloads' | 'audits'> | undefined): {
  text: string
  colour: string
} {
  if (!told) return { text: '', colour: GOOD }
  if (told.harness.state === 'failed') return { text: 'not running', colour: BAD }
  const failed = told.files.dirty.length > 0 ? told.reloads.findLast(isFailed) : undefined
  if (failed) {
    const names = failed.providers.map(({ name }) => name).join(', ')
    return { text: `${failed.outcome} ${names}`.trim(), colour: failed.outcome === 'kept' ? WAIT : BAD }
  }
  const retained = told.audits.filter(({ outcome }) => outcome === 'retained')
  const last = retained.at(-1)
  if (!last) return { text: '', colour: GOOD }
  const more = retained.length > 1 ? ` and ${retained.length - 1} more` : ''
  return { text: `retained ${last.name} ${last.generation}${more}`, colour: BAD }
}

function isFailed({ outcome }: ReloadReport): boolean {
  return outcome === 'kept' || outcome === 'rolled-back'
}

let shown = ''

/** Shows it in the tab. */
export function showTitle(told: Snapshot | undefined): void {
  const { text, colour } = headline(told)
  const title = text === '' ? 'harness-hmr' : `${text} · harness-hmr`
  if (shown === title) return
  document.title = shown = title
  const arrow = (from: string, stroke: string) => `<path stroke="${stroke}" d="${from}"/>`
  const svg = `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 32 32" fill="none" stroke-width="3.2" stroke-linecap="round">${arrow('M26.5 13A11 11 0 0 0 6.3 10.6M5.6 4.8v6.2h6.2', '#8a9098')}${arrow('M5.5 19A11 11 0 0 0 25.7 21.4M26.4 27.2V21h-6.2', colour)}</svg>`
  const icon = document.querySelector<HTMLLinkElement>('link[rel=icon]')
  if (icon) icon.href = `data:image/svg+xml,${encodeURIComponent(svg)}`
}
