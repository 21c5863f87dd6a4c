/**
 * What a watcher does not tell: whether a file's content is already there, and whether it changed once more. chokidar
 * drops a change that comes less than 50 ms after the previous one of the same file, and an editor that truncates before
 * it writes is announced while the file is empty.
 */
import { readFile, stat } from 'node:fs/promises'
import { clearTimeout, now, setTimeout } from '../guard/clock.ts'

/** Milliseconds after which a file that was read is looked at again; longer than chokidar's blind time. */
const LOOK_AGAIN = 75
/** The signature of a file that is gone. */
const MISSING = 'missing'
/**
 * A file that is gone is looked for at twice the interval each time, until this many milliseconds have passed: chokidar
 * reads a folder once a second at most, and one that comes back meanwhile is nothing to it. Later it tells by itself.
 */
const MISSING_FOR = 3000
/** Milliseconds that a file which is empty, or is being written, may take to get its content, and between two looks. */
const UNSETTLED_FOR = 200
const STEP = 5

/** Finds the newest content of saved files. */
export class Saves {
  readonly #changed: (file: string) => void
  /** The next look at a file: one for each, however often it is announced. */
  readonly #timers = new Map<string, NodeJS.Timeout>()
  /** Content that counts as saved although it is not on disk, by file: what a test edits. */
  readonly unsaved = new Map<string, string>()
  #isClosed = false
  /** What was read of a file last. */
  readonly #last = new Map<string, { key: string; content: string | undefined }>()

  /** `changed` is called for a file that was written again after it was read. */
  constructor(changed: (file: string) => void) {
    this.#changed = changed
  }

  /**
   * Resolves when the file can be read: it has content, or is empty for good, or is gone. With false when a watcher has
   * announced one save twice: nothing was written since the last time.
   */
  async read(file: string): Promise<boolean> {
    const unsaved = this.unsaved.get(file)
    if (unsaved !== undefined) return this.#note(file, 'unsaved', unsaved)
    const start = now()
    const isLate = () => now() - start >= UNSETTLED_FOR
    for (;;) {
      const { key, size } = await signature(file)
      const content = await readFile(file, 'utf8').catch(() => undefined)
      // Written meanwhile: the content may be older or newer than the signature, and would seem saved once more later.
      const isSettled = size !== 0 && key === (await signature(file)).key
      if (isSettled || isLate()) {
        this.#lookAgain(file, key)
        return this.#note(file, key, content)
      }
      await new Promise(resolve => setTimeout(resolve, STEP))
    }
  }

  #note(file: string, key: string, content: string | undefined): boolean {
    const last = this.#last.get(file)
    this.#last.set(file, { key, content })
    return last?.key !== key || last.content !== content
  }

  /** What a file was read for has changed: it counts as saved, although its content is the same. */
  forget(file: string): void {
    this.#last.delete(file)
  }

  /** Looks at a file that is not read, for the save after this one; one that is gone is nothing to wait for. */
  async look(file: string): Promise<void> {
    const { key } = await signature(file)
    if (key !== MISSING) this.#lookAgain(file, key)
  }

  #lookAgain(file: string, key: string, after = LOOK_AGAIN): void {
    if (this.#isClosed) return
    clearTimeout(this.#timers.get(file))
    const timer = setTimeout(() => {
      this.#timers.delete(file)
      void signature(file).then(later => {
        if (later.key !== key) this.#changed(file)
        else if (key === MISSING && after < MISSING_FOR) this.#lookAgain(file, key, after * 2)
      })
    }, after)
    this.#timers.set(file, timer.unref())
  }

  /** Whether a file was written since it was read last; since `began` (as `Date.now()` counts) where it never was. */
  async isNewer(file: string, began: number): Promise<boolean> {
    const last = this.#last.get(file)
    const unsaved = this.unsaved.get(file)
    if (unsaved !== undefined) return unsaved !== last?.content
    if (last === undefined) return (await writtenSince(began, [file])).length > 0
    return (await signature(file)).key !== last.key
  }

  /** Stops looking. */
  close(): void {
    for (const timer of this.#timers.values()) clearTimeout(timer)
    this.#timers.clear()
    this.#isClosed = true
  }
}

async function signature(file: string): Promise<{ size: number; key: string }> {
  try {
    const { size, mtimeMs, ino } = await stat(file)
    return { size, key: `${ino}:${size}:${mtimeMs}` }
  } catch {
    return { size: -1, key: MISSING }
  }
}

/** Those of `files` that were written at `since` (as `Date.now()` counts) or later. */
export async function writtenSince(since: number, files: string[]): Promise<string[]> {
  const times = await Promise.all(
    files.map(file =>
      stat(file).then(
        ({ mtimeMs }) => mtimeMs,
        () => 0
      )
    )
  )
  return files.filter((_, i) => times[i]! >= since)
}
