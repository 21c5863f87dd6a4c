/** Matchers for `expect.extend()` of vitest, jest, and whoever else takes theirs. */
import { stripVTControlCharacters } from 'node:util'
import { auditLine, type AuditReport, type ReloadReport, whyLine, type WhyReport } from '../report/report.ts'

declare global {
  // vitest's `expect` reads this namespace too, so that neither of the two has to be there.
  namespace jest {
    interface Matchers<R, T = {}> {
      /**
       * Audits a harness of `createHarness()`: everything that its reloads have retired must be gone. With `why` a failure
       * says what keeps it, for which the heap is searched some seconds long.
       */
      toHaveReleasedEverything(options?: { why?: boolean }): Promise<R>
    }
  }
}

/** What the matcher asks a harness for. */
interface Audited {
  audit(): Promise<AuditReport[]>
  reports(): readonly ReloadReport[]
  why(): Promise<WhyReport[]>
}

/** What `expect` makes of a matcher. */
export interface Assertion {
  /** Whether it holds. */
  pass: boolean
  /** What a failed assertion says, negated or not. */
  message: () => string
}

/** To be given to `expect.extend()`. */
export const matchers = {
  /**
   * Passes when every generation that was retired is collected and has left nothing running.
   * @throws when nothing was retired yet, since that would prove nothing.
   */
  async toHaveReleasedEverything(received: unknown, { why = false }: { why?: boolean } = {}): Promise<Assertion> {
    if (!isAudited(received)) throw new TypeError('toHaveReleasedEverything: takes what createHarness() resolves with')
    const audits = await received.audit()
    if (audits.length === 0) {
      throw new Error(
        'toHaveReleasedEverything: nothing was retired yet. Call `reload(file)` or `edit(file, change)` first'
      )
    }
    const kept = [...audits.flatMap(keptLines), ...received.reports().flatMap(failureLines)]
    const retained = audits.filter(({ outcome }) => outcome === 'retained')
    if (why && retained.length > 0) kept.push(...(await received.why()).flatMap(whyLines))
    else if (retained.some(({ retainers }) => retainers.length === 0)) kept.push(SEARCH)
    const gone = audits.map(({ name, generation }) => `${name} ${generation}`).join(', ')
    return {
      pass: kept.length === 0,
      message: () =>
        kept.length > 0
          ? `expected everything to be released, but\n${kept.join('\n')}`
          : `expected something to be kept, but ${gone} released everything`
    }
  }
}

const SEARCH = '  (toHaveReleasedEverything({ why: true }) searches the heap for what keeps it, for some seconds)'

function isAudited(value: unknown): value is Audited {
  const harness = value as Partial<Audited> | null | undefined
  return typeof harness?.audit === 'function' && typeof harness.reports === 'function'
}

/** What a generation has kept or left running; none for one that is gone without a trace. */
function keptLines(audit: AuditReport): string[] {
  if (audit.outcome === 'collected' && audit.retainers.length === 0) return []
  return linesOf(auditLine(audit, process.cwd()))
}

function whyLines(report: WhyReport): string[] {
  return linesOf(whyLine(report, process.cwd()))
}

function linesOf(text: string): string[] {
  return stripVTControlCharacters(text)
    .split('\n')
    .map(line => `  ${line}`)
}

function failureLines({ id, failures }: ReloadReport): string[] {
  return failures.map(failure => `  reload ${id}: ${failure}`)
}
