/** Looking again, at no cost while there is nothing to look at. */
import { clearTimeout, now, setTimeout } from '../guard/clock.ts'
import { outside } from '../guard/outside.ts'

/** Milliseconds until the first look, and at most between two while nothing comes of it. */
const FIRST = 25
const LAST = 400
/** A look that was expensive is not repeated before this many times as long. */
const SHARE = 20

/**
 * Calls `look` again and again, less and less often, for as long as it says that something is left to see; sooner again when
 * something came of it. The timer belongs to nobody, and keeps neither the process nor the one who looks.
 */
export class Again {
  readonly #look: () => { left: boolean; found: boolean }
  #timer: NodeJS.Timeout | undefined
  #delay = FIRST
  #least = FIRST

  constructor(look: () => { left: boolean; found: boolean }) {
    this.#look = look
  }

  /** Whether it is going to look. */
  get isSet(): boolean {
    return this.#timer !== undefined
  }

  /** There is something new to look at. */
  soon(): void {
    if (!this.#timer || this.#delay > this.#least) this.#set(this.#least)
  }

  #set(delay: number): void {
    clearTimeout(this.#timer)
    this.#delay = delay
    const ref = new WeakRef<Again>(this)
    this.#timer = outside(() => setTimeout(Again.#wake, delay, ref).unref())
  }

  static #wake(ref: WeakRef<Again>): void {
    const again = ref.deref()
    if (again) again.#run()
  }

  #run(): void {
    this.#timer = undefined
    const start = now()
    const { left, found } = this.#look()
    this.#least = Math.max(FIRST, (now() - start) * SHARE)
    if (left) this.#set(Math.max(this.#least, found ? FIRST : Math.min(this.#delay * 2, LAST)))
  }
}
