/** How fast something grows: a line through points. Pure. */

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
