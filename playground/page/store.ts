/** One model for the whole page, drawn at most once a frame. */
import { useEffect, useReducer } from 'preact/hooks'
import { emptyModel } from './model.ts'

/** What the page knows. */
export const model = emptyModel()

const drawers = new Set<() => void>()
let scheduled = false

/** The model has changed. */
export function signalChange(): void {
  if (scheduled) return
  scheduled = true
  const draw = () => {
    if (!scheduled) return
    scheduled = false
    for (const drawer of drawers) drawer()
  }
  // A page in the background gets no frames, and is to be up to date when it is looked at.
  if (document.visibilityState === 'visible') requestAnimationFrame(draw)
  else setTimeout(draw, 500)
}

/** Draws the calling component again when the model has changed. */
export function useModel(): typeof model {
  const [, redraw] = useReducer((count: number) => count + 1, 0)
  useEffect(() => {
    const drawer = () => redraw(undefined)
    drawers.add(drawer)
    return () => void drawers.delete(drawer)
  }, [])
  return model
}
