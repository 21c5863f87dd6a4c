/** What the terminal shows: one line per report through Vite's logger, everything else on debug. */
import colors from 'picocolors'
import type { Logger } from 'vite'
import type { HarnessEvents, Waiting } from './events.ts'
import { auditLine, isQuiet, place, plural, reloadLine, type ReportError, whyLine } from './report.ts'
import { slowLines } from './slow.ts'

/** The events of a harness as lines. `root` shortens paths, `entry` is shown as given. */
export function terminal(logger: Logger, root: string, entry: string): Partial<HarnessEvents> {
  const prefix = colors.cyan('[harness-hmr]')
  const info = (line: string) => logger.info(`${prefix} ${line}`)
  const error = (line: string) => logger.error(`${prefix} ${line}`)
  return {
    ready({ providers, failed, waiting, ms }) {
      info(
        `${colors.green('ready')} ${colors.bold(entry)}  ${[plural(providers, 'provider'), ...waitingFor(waiting)].join(', ')}  ${colors.dim(`in ${Math.round(ms)} ms`)}`
      )
      if (failed.length > 0) error(colors.red(`failed: ${failed.join(', ')}`))
    },
    failed(cause) {
      error(
        `${colors.red('not running')} ${colors.bold(entry)}  ${lineOf(cause, root)}  ${colors.dim('(the next save tries again)')}${cause.frame ? `\n${cause.frame}` : ''}`
      )
    },
    reload(report) {
      // Nothing to read of: most saved files are not the harness'.
      if (!isQuiet(report)) info(reloadLine(report, root))
    },
    audit(report) {
      // Who is told that something is kept wants to know by what.
      const isUnnamed = report.outcome === 'retained' && report.retainers.length === 0
      const hint = isUnnamed ? `  ${colors.dim('what keeps it: w + Enter, or `npx harness-hmr why`')}` : ''
      info(`${auditLine(report, root)}${hint}`)
    },
    why(report) {
      info(whyLine(report, root))
    },
    progress({ what, stage }) {
      if (what === 'why' && stage === 'snapshot')
        info(colors.dim('why: a snapshot of the heap is taken, which stops the process for some seconds'))
    },
    note(message) {
      info(colors.dim(message))
    },
    auditWaits(megabytes) {
      info(
        colors.dim(
          `the audit waits for a quiet moment: with ${megabytes} MB a collection stops the process for a while`
        )
      )
    },
    slow(waits) {
      logger.warn(`${prefix} ${slowLines(waits).join('\n  ')}`)
    },
    error(cause) {
      const frames = framesOf(cause.stack).slice(0, 5)
      error([lineOf(cause, root), ...frames.map(frame => colors.dim(frame))].join('\n'))
    }
  }
}

/** For how many providers nothing is there yet, e.g. `1 waits for "llm"`. */
function waitingFor(waiting: Waiting[]): string[] {
  if (waiting.length === 0) return []
  const services = [...new Set(waiting.flatMap(({ services }) => services))].map(name => `"${name}"`)
  const verb = waiting.length === 1 ? 'waits' : 'wait'
  return [colors.yellow(`${waiting.length} ${verb} for ${services.join(', ') || 'a service'}`)]
}

/** The frames of a stack, without the message above them, which may have lines of its own. */
function framesOf(stack = ''): string[] {
  return stack.split('\n').filter(line => /^\s+at /.test(line))
}

function lineOf({ message, location }: ReportError, root: string): string {
  return location ? `${colors.cyan(place(location, root))} ${message}` : message
}
