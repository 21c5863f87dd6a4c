import type { BrowserPage } from 'harness-hmr'

/** How much a page may ask for in a second. */
const MOST = 30
/** What changes nothing. */
const READING = new Set(['read', 'session'])

/** What a page may ask for, and how often. */
export class Limits {
  private readonly counts = new WeakMap<BrowserPage, { count: number; since: number }>()

  /** @throws when a page has to be on this machine, or asks for too much. */
  assertMay(page: BrowserPage, name: string): void {
    if (!page.mayAct && !READING.has(name))
      throw new Error('only a page on this machine may do that, unless harnessHmr() has the option `remote`')
    const { count, since } = this.counts.get(page) ?? { count: 0, since: Date.now() }
    const isOver = Date.now() - since > 1000
    this.counts.set(page, isOver ? { count: 1, since: Date.now() } : { count: count + 1, since })
    if (!isOver && count >= MOST) throw new Error(`a page may ask for ${MOST} things a second`)
  }
}
