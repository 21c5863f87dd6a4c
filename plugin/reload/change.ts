/** What one reload changes, from the moment on that something is taken down. */
import type { Retired } from '../audit/audit.ts'
import type { Closing } from './close.ts'
import type { Created } from './install.ts'
import type { Reaching, Staged } from './stage.ts'
import type { Going } from './targets.ts'

/** What a reload has done so far, which is what a rollback has to undo. */
export interface Change {
  plan: Reaching
  going: Going
  staged: Staged
  /** The objects of what was installed of the new versions. */
  created: Created
  /** What has to be gone afterwards. */
  retired: Retired[]
  /** The disposals, once they have begun. */
  closing: Closing | undefined
  /** Whether those had ended in time. */
  isDrained: boolean
}

/** A change of which nothing has been done yet. */
export function changeOf(plan: Reaching, going: Going, staged: Staged): Change {
  return {
    plan,
    going,
    staged,
    created: new Map(),
    retired: [],
    closing: undefined,
    isDrained: false
  }
}
