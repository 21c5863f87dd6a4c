/**
 * What a watcher does not tell: whether a file's content is already there, and whether it changed once more. chokidar
 * drops a change that comes less than 50 ms after the previous one of the same file, and an editor that truncates before
 * it writes is announced while the file is empty.
 */
import { readFile, stat } from 'node:fs/promises'

/** Milliseconds after which a file that was read is looked at again; longer than chokidar's blind time. */
const LOOK_AGAIN = 75
/**
 * The signature of a file that is gone, and how often it is looked for at last: chokidar reads a folder once a second at
 * most, and a file that comes back meanwhile is nothing to it.
 */
const MISSING = 'missing'
const MISSING_EVERY = 500
/** Milliseconds that a file which is empty, or is being written, may take to get its content, and between two looks. */
const UNSETTLED_FOR = 200
const STEP = 5

/** Finds the newest content of saved files. */
export class Saves {
  readonly #changed: (file: string) => void
  readonly #timers = new Set<NodeJS.Timeout>()
  /** Content that counts as saved although it is not on disk, by file: what a test edits. */
  readonly unsaved = new Map<string, string>()
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
    const start = performance.now()
    const isLate = () => performance.now() - start >= UNSETTLED_FOR
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

  /** Looks at a file that is not read, for the save after this one. */
  async look(file: string): Promise<void> {
    this.#lookAgain(file, (await signature(file)).key)
  }

  #lookAgain(file: string, key: string, after = LOOK_AGAIN): void {
    const timer = setTimeout(() => {
      this.#timers.delete(timer)
      void signature(file).then(later => {
        if (later.key !== key) this.#changed(file)
        else if (key === MISSING) this.#lookAgain(file, key, Math.min(after * 1.5, MISSING_EVERY))
      })
    }, after)
    this.#timers.add(timer.unref())
  }

  /** Stops looking. */
  close(): void {
    for (const timer of this.#timers) clearTimeout(timer)
    this.#timers.clear()
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
