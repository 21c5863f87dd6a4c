/** Time as it passes, taken before a test can replace it by its own: a reload ends in a test with fake timers too. */
export const { setTimeout, clearTimeout, setImmediate } = globalThis
/** Milliseconds of a clock that never goes back. */
export const now: () => number = performance.now.bind(performance)
/** Milliseconds since 1970, as the files' times count. */
export const timestamp: () => number = Date.now
