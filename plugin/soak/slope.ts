/** How fast the heap grows: lines through looks at it. Pure. */

/** A line's slope, and the error that it may have: two standard errors, so that it is rarely larger. */
export interface Slope {
  value: number
  error: number
}

/** The least-squares line through points; `undefined` for fewer than three, or for points of one x. */
export function slopeOf(points: readonly (readonly [x: number, y: number])[]): Slope | undefined {
  const n = points.length
  const mean = (pick: 0 | 1) => points.reduce((sum, point) => sum + point[pick], 0) / n
  const [x0, y0] = [mean(0), mean(1)]
  const xx = points.reduce((sum, [x]) => sum + (x - x0) ** 2, 0)
  if (n < 3 || xx === 0) return undefined
  const value = points.reduce((sum, [x, y]) => sum + (x - x0) * (y - y0), 0) / xx
  const residual = points.reduce((sum, [x, y]) => sum + (y - y0 - value * (x - x0)) ** 2, 0)
  return { value, error: 2 * Math.sqrt(residual / (n - 2) / xx) }
}

/** A look at the heap after so many reloads and so many seconds. */
export interface Point {
  reloads: number
  seconds: number
  heap: number
}

/** What the heap grows by: bytes per second without reloads, bytes per reload, and how many of those are the reload's. */
export interface HeapSlopes {
  background: Slope | null
  total: Slope | null
  perReload: Slope | null
}

/** The first reloads fill caches, V8's own too: they do not count, or the slope is less certain by what those take. */
const WARM_UP = 100
const WARM_UP_BYTES = 100_000
/** From fewer looks nothing is concluded. */
const FEWEST = 10

/** Tells what reloads add to the heap from what the same time alone would have added. */
export function heapSlopes(
  background: readonly [seconds: number, heap: number][],
  points: readonly Point[]
): HeapSlopes {
  // The first looks see what went before.
  const alone = slopeOf(background.slice(background.length / 4)) ?? null
  const last = points.at(-1)?.reloads ?? 0
  const isWarm = last >= 2 * WARM_UP
  const counted = points.filter(({ reloads }) => reloads > (isWarm ? WARM_UP : last / 2))
  const line = counted.length < FEWEST ? undefined : slopeOf(counted.map(({ reloads, heap }) => [reloads, heap]))
  const [from, to] = [counted[0], counted.at(-1)]
  if (!line || !from || !to) return { background: alone, total: null, perReload: null }
  const total = { value: line.value, error: line.error + (isWarm ? 0 : WARM_UP_BYTES / last) }
  return {
    background: alone,
    total,
    perReload: without(total, alone, (to.seconds - from.seconds) / (to.reloads - from.reloads))
  }
}

/** A slope that is no more than its error says nothing, and is not taken off. */
function without(total: Slope, alone: Slope | null, secondsEach: number): Slope {
  if (!alone || alone.value < alone.error) return total
  return { value: total.value - alone.value * secondsEach, error: total.error + alone.error * secondsEach }
}
