/** A bar on a terminal; nothing where there is none. */
import colors from 'picocolors'

const WIDTH = 28
/** Milliseconds between two pictures of it. */
const EVERY = 80

interface Output {
  isTTY?: boolean
  write(text: string): unknown
}

/** Shows how far something has come, on one line of `output`. */
export function progressBar(output: Output): {
  show(stage: string, fraction: number, count?: string): void
  clear(): void
} {
  if (!output.isTTY) return { show: () => {}, clear: () => {} }
  let shown = -Infinity
  return {
    show(stage, fraction, count = `${Math.round(fraction * 100)} %`) {
      const now = performance.now()
      if (now - shown < EVERY) return
      shown = now
      const full = Math.round(Math.min(1, Math.max(0, fraction)) * WIDTH)
      output.write(
        `\r\x1b[K${colors.cyan('█'.repeat(full))}${colors.dim('░'.repeat(WIDTH - full))} ${stage} ${colors.dim(count)}`
      )
    },
    clear: () => void output.write('\r\x1b[K')
  }
}
