/** Files that the harness itself writes while it is reloaded for them: without a word it would never come to rest. */

/** So many reloads in a row may be caused by a file that is written during each of them. */
const FREE = 5
/** Milliseconds that the first round after those has to wait, and the longest; each next one waits twice as long. */
const FIRST_WAIT = 1000
const LONGEST_WAIT = 30_000

/** Tells a file that is written during each reload that it causes from one that a person saves. */
export class Rounds {
  /** How often in a row. */
  readonly #counts = new Map<string, number>()

  /** A reload for a file has ended; `again` when the file was written meanwhile. */
  ended(file: string, again: boolean): void {
    if (again) this.#counts.set(file, this.of(file) + 1)
    else this.#counts.delete(file)
  }

  /** How many reloads in a row the file was written in. */
  of(file: string): number {
    return this.#counts.get(file) ?? 0
  }

  /** Milliseconds that the next reload for it has to wait. */
  waitFor(file: string): number {
    const count = this.of(file)
    return count < FREE ? 0 : Math.min(FIRST_WAIT * 2 ** (count - FREE), LONGEST_WAIT)
  }
}
