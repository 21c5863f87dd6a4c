import { setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'
import { turn } from './promptly.ts'

setFlagsFromString('--expose-gc')
const gc = runInNewContext('gc') as () => void
setFlagsFromString('--no-expose-gc')

/**
 * How many of `refs` are still alive once at most `expected` are, or after `turns` collections.
 * A `deref()` keeps its target until the job ends, so it never shares a job with the collection.
 */
export async function alive(refs: readonly WeakRef<object>[], expected = 0, turns = 10): Promise<number> {
  for (;;) {
    await turn()
    gc()
    await turn()
    const count = refs.filter(ref => ref.deref() !== undefined).length
    if (count <= expected || --turns === 0) return count
  }
}
