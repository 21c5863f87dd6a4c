/** What one reload changes, from the moment on that something is taken down; and what its steps hand to each other. */
import type { Retired } from '../audit/audit.ts'
import type { Fiber } from '../cordis/cordis.ts'
import type { Instance } from '../cordis/fibers.ts'
import type { Stage } from '../modules/host.ts'
import type { BoundaryScope, Drained } from '../scope.ts'
import type { ReloadPlan } from './plan.ts'
import type { Going } from './targets.ts'

/** An old instance and the plugin that takes its place. */
export interface Replacement {
  instance: Instance
  plugin: unknown
}

/** A plan that reaches something. */
export type Reaching = Exclude<ReloadPlan, { kind: 'ignored' }>

/** New versions that can be put in place. */
export interface Staged extends Stage {
  /** Per instance whose provider is still there, what takes its place. */
  successors: Replacement[]
  /** Hands the new versions to who has accepted them, and prunes what nothing imports any more. Returns what that threw. */
  accept(): Promise<unknown[]>
}

/** What is being waited for after close. */
export interface Closing {
  /** Resolves when every old instance is gone. */
  gone: Promise<unknown>
  /** The old instances that are not gone yet. */
  going: ReadonlySet<Fiber>
  /** The services that went with them. */
  services: string[]
  /** What was thrown: by handlers of `harness-hmr/before-reload`, by disposals. */
  failed: unknown[]
  /** Per scope, how its drain ended; a scope is missing until then. */
  drained: Map<BoundaryScope<never>, Drained>
}

/** The objects of what was installed, by module and instance, held weakly. */
export type Created = Map<string, WeakRef<object>[][]>

/** What a reload has done so far, which is what a rollback has to undo. */
export interface Change {
  plan: Reaching
  going: Going
  staged: Staged
  /** What goes, as it is called before it goes, e.g. `"agents 4"`. */
  names: Map<Fiber, string>
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
    names: new Map(),
    created: new Map(),
    retired: [],
    closing: undefined,
    isDrained: false
  }
}
