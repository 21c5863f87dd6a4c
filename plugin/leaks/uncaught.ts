/**
 * What nobody has caught, on its way to Node. Node asks `process.emit` whether anybody handles such an error, so it is
 * looked at there: a listener from us would, by being there, change what becomes of every other error.
 */

/** Takes an error for its own and tells of it; it ends there then, and neither Node nor any listener hears of it. */
export type Claim = (error: unknown) => boolean

/** What several copies of this module share: a restart of the dev server may load it again, and two servers may run. */
interface Hook {
  claims: Set<Claim>
  emit: typeof process.emit
  /** Puts back what was there, where nobody has come after us. */
  remove(): void
}

const SLOT = Symbol.for('harness-hmr.uncaught')

/** Asks `claim` about every error that nobody has caught; returns how to stop. */
export function claimUncaught(claim: Claim): () => void {
  const slot = globalThis as unknown as Record<symbol, Hook | undefined>
  const hook = (slot[SLOT] ??= install())
  hook.claims.add(claim)
  return () => {
    hook.claims.delete(claim)
    // Whoever has wrapped us meanwhile calls us still: then we stay, and have nothing to say.
    if (hook.claims.size > 0 || process.emit !== hook.emit) return
    hook.remove()
    delete slot[SLOT]
  }
}

function install(): Hook {
  const claims = new Set<Claim>()
  const own = Object.getOwnPropertyDescriptor(process, 'emit')
  const { emit } = process
  /** With `--unhandled-rejections=strict` a rejection comes as an exception first, and then once more. */
  let cameBefore = false
  const isClaimed = ([event, error, origin]: unknown[]) => {
    if (event === 'unhandledRejection') {
      if (cameBefore) return !(cameBefore = false)
      // Node makes an exception of it, where it minds at all, and first notes the place: to read the stack would lose that.
      if (process.listenerCount(event) === 0) return false
    } else if (event !== 'uncaughtException') return false
    const claimed = [...claims].some(claim => isTaken(claim, error))
    cameBefore = claimed && origin === 'unhandledRejection'
    return claimed
  }
  const asking = function emits(this: NodeJS.Process, ...args: unknown[]) {
    return isClaimed(args) || (Reflect.apply(emit, this, args) as boolean)
  } as typeof process.emit
  process.emit = asking
  return {
    claims,
    emit: asking,
    remove: () => {
      if (own) Object.defineProperty(process, 'emit', own)
      else Reflect.deleteProperty(process, 'emit')
    }
  }
}

function isTaken(claim: Claim, error: unknown): boolean {
  try {
    return claim(error)
  } catch {
    // What cannot be looked at is nobody's: Node says what it is.
    return false
  }
}
