/** Values that can be forgotten all at once. */

/** Stands for a value wherever the value itself must not be reachable from. */
export type Cell = object

/** Taken now: nobody's `then` is called. */
const { then } = Promise.prototype
const DONE = Promise.resolve()

/**
 * Knows which cell stands for which value: whoever keeps a cell keeps the value, until this is dropped. A value that comes
 * twice in a row has the same cell, since to note a new one costs more than the rest of a boundary.
 */
export class Cells<T extends {}> {
  readonly #values = new WeakMap<Cell, T>()
  readonly #endOfJob: () => void
  #last: Cell | undefined

  /** `forgets` tells whether {@link forget} is going to be called within a second; else it is at the end of the job. */
  constructor(forgets: () => boolean) {
    this.#endOfJob = () => {
      if (!forgets()) this.forget()
    }
  }

  /** The cell of a value. */
  cellOf(value: T): Cell {
    const last = this.#last
    if (last && this.#values.get(last) === value) return last
    const cell: Cell = {}
    this.#values.set(cell, value)
    this.#last = cell
    void then.call(DONE, this.#endOfJob)
    return cell
  }

  /** The value of a cell; `undefined` for none. */
  get(cell: Cell | undefined): T | undefined {
    return this.#values.get(cell!)
  }

  /** Keeps no value any more that nobody else keeps. */
  forget(): void {
    this.#last = undefined
  }
}
