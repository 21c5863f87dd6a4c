/** What a harness tells as JSON, one object a line, for programs that read along. */
import { argv, env } from 'node:process'
import type { HarnessEvents } from './events.ts'
import { isQuiet } from './report.ts'

/** Whether lines of JSON are asked for outside of the config: `HARNESS_HMR_JSON=1 vite`, or `vite -- --json`. */
export function wantsJson(): boolean {
  const { HARNESS_HMR_JSON: wanted } = env
  const afterDashes = argv.includes('--') ? argv.slice(argv.indexOf('--') + 1) : []
  return (wanted !== undefined && wanted !== '' && wanted !== '0') || afterDashes.includes('--json')
}

/**
 * The events of a harness as lines. Reports go as they are; `ready`, `failed`, `slow`, `note` and `error` get a `type` too.
 * @param page - the address of the live page, known when the harness is ready.
 */
export function jsonLines(write: (line: string) => void, page: () => string | undefined): Partial<HarnessEvents> {
  const tell = (value: object) => write(`${JSON.stringify(value)}\n`)
  return {
    ready: info => tell({ type: 'ready', ...info, page: page() }),
    failed: error => tell({ type: 'failed', ...error }),
    reload: report => {
      if (!isQuiet(report)) tell(report)
    },
    audit: tell,
    why: tell,
    slow: drain => tell({ type: 'slow', ...drain }),
    note: message => tell({ type: 'note', message }),
    error: error => tell({ type: 'error', ...error })
  }
}
