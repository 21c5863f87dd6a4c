/** Files that the harness itself writes while it is reloaded for them: without a word it would never come to rest. */
import { now } from './clock.ts'

/** So many reloads in a row may be caused by a file that was written during the one before. */
const FREE = 4
/** Milliseconds that the first round after those has to wait, and the longest; each next one waits twice as long. */
const FIRST_WAIT = 1000
const LONGEST_WAIT = 30_000
/** A save may be noticed so many milliseconds after the reload that it was made in. */
const NOTICED_WITHIN = 150

interface Round {
  /** Reloads in a row. */
  count: number
  /** When the last of them ended, on our clock; `Infinity` while it runs. */
  ended: number
}

/** Tells a file that is written at each reload from one that a person saves. */
export class Rounds {
  readonly #files = new Map<string, Round>()

  /** A reload for these files begins. */
  begin(files: string[]): void {
    for (const file of files) {
      const round = this.#files.get(file)
      const isNext = round !== undefined && now() - round.ended < NOTICED_WITHIN
      this.#files.set(file, { count: isNext ? round.count + 1 : 1, ended: Infinity })
    }
  }

  /** It has ended. */
  end(files: string[]): void {
    for (const file of files) {
      const round = this.#files.get(file)
      if (round) round.ended = now()
    }
    for (const [file, { ended }] of this.#files) {
      if (ended !== Infinity && now() - ended > 2 * LONGEST_WAIT) this.#files.delete(file)
    }
  }

  /** How long a save has to wait: 0 for all but those that would be one round too many. */
  waitFor(file: string): { ms: number; rounds: number } {
    const round = this.#files.get(file)
    if (!round || round.count < FREE || now() - round.ended > NOTICED_WITHIN) return { ms: 0, rounds: 0 }
    return { ms: Math.min(FIRST_WAIT * 2 ** (round.count - FREE), LONGEST_WAIT), rounds: round.count }
  }

  /** A save that has waited goes on where it stopped. */
  resume(file: string): void {
    const round = this.#files.get(file)
    if (round) round.ended = now()
  }
}
