/** What pages ask for: who may, how often, and what is done for it. What they send may be anything. */
import type { WebSocketClient } from 'vite'
import type { Generation } from '../../audit/creators.ts'
import { now } from '../../guard/clock.ts'
import { messageOf } from '../../guard/contain.ts'
import { printableLine } from '../../guard/printable.ts'
import type { Harness } from '../../harness/harness.ts'
import { plural, type WhyReport } from '../../report/report.ts'
import type { Answer, Command } from './protocol.ts'

/** Commands that one page may send in so many milliseconds. */
const MOST = 20
const SECOND = 1000

/** Obeys the pages of one harness. */
export class Commands {
  readonly #harness: Harness
  readonly #counts = new WeakMap<WebSocketClient, { count: number; since: number }>()
  #isSearching = false

  constructor(harness: Harness) {
    this.#harness = harness
  }

  /** Does what a page asks for; never rejects. */
  async answer(data: unknown, client: WebSocketClient): Promise<Answer> {
    const { id, ...command } = (data ?? {}) as { id: number }
    try {
      this.#assertMay(client)
      return { id, message: await this.#obey(command as unknown as Command) }
    } catch (error) {
      return { id, error: printableLine(messageOf(error)) }
    }
  }

  #assertMay(client: WebSocketClient): void {
    if (this.#harness.visitors.standing(client) !== 'owner')
      throw new Error('only this machine may do that, unless harnessHmr() has the option `remote`')
    const { count, since } = this.#counts.get(client) ?? { count: 0, since: now() }
    const isOver = now() - since > SECOND
    this.#counts.set(client, isOver ? { count: 1, since: now() } : { count: count + 1, since })
    if (!isOver && count >= MOST) throw new Error(`a page may send ${MOST} commands a second`)
  }

  async #obey(command: Command): Promise<string> {
    const harness = this.#harness
    switch (command.do) {
      case 'reload': {
        const { module } = command
        if (typeof module !== 'string' || !harness.running?.host.modules().includes(module))
          throw new Error('the module does not run')
        harness.invalidate([module])
        return 'the reload is queued'
      }
      case 'audit':
        await harness.audit()
        return audited(harness)
      case 'why': {
        const found = await this.#search(retiredIn(command, harness))
        const objects = found.reduce((sum, { found }) => sum + found.length, 0)
        return found.length === 0
          ? 'nothing is retained'
          : `searched: ${plural(found.length, 'generation')}, kept at ${plural(objects, 'place')}`
      }
      case 'abandon': {
        const told = abandoned(harness)
        if (told === undefined) throw new Error('no reload waits')
        return told
      }
      case 'settle':
        await harness.settle()
        return 'settled'
      default:
        throw new Error(`there is no command "${String((command satisfies never as { do?: unknown }).do)}"`)
    }
  }

  /** Each search stops the process for a while. */
  async #search(only: Generation | undefined): Promise<WhyReport[]> {
    if (this.#isSearching) throw new Error('a search through the heap runs already')
    this.#isSearching = true
    try {
      return await this.#harness.why(only)
    } finally {
      this.#isSearching = false
    }
  }
}

/** Lets the reload that waits go on, and says without what; nothing when none waits. */
export function abandoned(harness: Harness): string | undefined {
  const step = harness.abandon()
  return step && `the reload goes on without ${step === 'close' ? 'those that have not parked' : 'the drain'}`
}

/** How many generations there were, by what became of them. */
function audited({ history }: Harness): string {
  const verdicts = [...history.audits.values()].map(({ outcome }) => outcome)
  if (verdicts.length === 0) return 'audited: nothing was retired'
  const counts = (['retained', 'pending', 'collected'] as const).map(outcome => ({
    outcome,
    n: verdicts.filter(verdict => verdict === outcome).length
  }))
  return `audited: ${counts.flatMap(({ outcome, n }) => (n > 0 ? [`${n} ${outcome}`] : [])).join(', ')}`
}

/** The generation that a command is about; none means all. @throws when it is not one that was retired. */
function retiredIn(
  { module, generation }: { module?: unknown; generation?: unknown },
  { history }: Harness
): Generation | undefined {
  if (module === undefined && generation === undefined) return undefined
  const retired = [...history.audits.values()].find(of => of.module === module && of.generation === generation)
  if (!retired) throw new Error('no such generation was retired')
  return retired
}
