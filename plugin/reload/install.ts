/** Install: successors in the places of old instances, and every dependent back on its feet; or what ran before. */
import { type Fiber, FiberState } from '../cordis/cordis.ts'
import { type Fibers, type Instance, isActive, isBusy, isPlace, isUnloading, settled } from '../cordis/fibers.ts'
import type { Change, Created, Replacement } from './change.ts'
import { messageOf } from '../guard/contain.ts'
import type { Running } from './running.ts'
import type { Steps } from './steps.ts'
import { within } from '../guard/within.ts'

/** What has to come back, and how long that may take. */
interface Comeback {
  fibers: Fibers
  /** Fibers that run on a service of what is replaced. */
  dependents: ReadonlySet<Fiber>
  /** What was active before the reload. */
  active: ReadonlySet<Fiber>
  /** Milliseconds for each. */
  deadline: number
  signal: AbortSignal
}

function comebackOf({ going: { dependents, active } }: Change, { fibers, limits, stopped }: Running): Comeback {
  return { fibers, dependents, active, deadline: limits.deadline, signal: stopped }
}

/** What came of one replacement: a fiber, and what it failed with. */
interface Installed {
  instance: Instance
  fiber: Fiber | undefined
  failure: unknown
}

/**
 * Puts the new versions in place, applies each plugin where the instance that it replaces was, in the old order, and waits
 * for the dependents. What was active before has to be active again; what was not may fail again, as long as another
 * instance of the same module runs.
 * @throws what a plugin throws, or an error that names who did not come back. Nothing stays installed then.
 */
export async function install(change: Change, running: Running, steps: Steps): Promise<void> {
  const { staged, created } = change
  const comeback = comebackOf(change, running)
  const { fibers, active, deadline, signal } = comeback
  signal.throwIfAborted()
  staged.commit()
  const installed: Installed[] = []
  try {
    for (const replacement of staged.successors) {
      const one = await installOne(replacement, comeback, created)
      installed.push(one)
      const { failure, instance } = one
      if (failure !== undefined && hasToRun(instance, active)) throw failure
      if (failure === undefined) fibers.fill(instance)
    }
    const failed = installed.filter(({ failure }) => failure !== undefined)
    const none = failed.find(({ instance }) => !installed.some(other => isBack(other, instance)))
    if (none) throw none.failure
    await dependentsBack(installed, comeback)
    // A loader applies its rows in its own time.
    if (running.rows.areThere()) await within(deadline, running.rows.settled(fibers), signal)
    steps.failed(failed.map(({ failure }) => failure))
  } catch (error) {
    for (const { fiber } of installed.toReversed())
      if (fiber) steps.failed(await fibers.dispose(fiber, deadline, signal))
    throw error
  }
  steps.failed(await staged.accept())
}

/** Puts what ran before in its place again, each by itself. Returns what did not come back, and why. */
export async function restore(
  replacements: Replacement[],
  change: Change,
  running: Running
): Promise<{ vacant: Instance[]; failures: unknown[] }> {
  const comeback = comebackOf(change, running)
  const { fibers, active, deadline, signal } = comeback
  const vacant: Instance[] = []
  const failures: unknown[] = []
  const installed: Installed[] = []
  for (const replacement of replacements) {
    const one = await installOne(replacement, comeback, new Map())
    const { instance, fiber, failure } = one
    installed.push(one)
    if (failure === undefined) fibers.fill(instance)
    // One that did not run before is back as it was.
    if (failure === undefined || !hasToRun(instance, active)) continue
    if (fiber) await fibers.dispose(fiber, deadline, signal)
    vacant.push(instance)
    failures.push(new Error(`the old version did not come back: ${messageOf(failure)}`, { cause: failure }))
  }
  fibers.vacate(vacant)
  await dependentsBack(
    installed.filter(({ failure }) => failure === undefined),
    comeback
  ).catch((error: unknown) => failures.push(error))
  return { vacant, failures }
}

/** Applies one, and waits until it runs; what it throws is an outcome of its own. */
async function installOne({ instance, plugin }: Replacement, comeback: Comeback, created: Created): Promise<Installed> {
  const { fibers, deadline, signal } = comeback
  let fiber: Fiber | undefined
  try {
    fiber = fibers.succeed(instance, plugin)
    if (!fiber) return { instance, fiber, failure: undefined }
    const objects = () => created.set(instance.module, [...(created.get(instance.module) ?? []), fibers.refs(fiber!)])
    const isReady = await within(deadline, fiber.await(), signal).finally(objects)
    if (isReady) return { instance, fiber, failure: undefined }
    const why = signal?.aborted ? 'the harness stops' : `it has not become active within ${deadline} ms`
    throw new Error(`provider "${fiber.name}": ${why}`)
  } catch (failure) {
    return { instance, fiber, failure: failure ?? new Error('nothing was thrown') }
  }
}

/** One that ran before, or would have but for a reload that failed. */
function hasToRun({ fiber }: Instance, active: ReadonlySet<Fiber>): boolean {
  return active.has(fiber) || isPlace(fiber)
}

function isBack({ instance, failure }: Installed, { module }: Instance): boolean {
  return failure === undefined && instance.module === module
}

/** Waits until everybody is active who was so before. @throws for the first who is not. */
async function dependentsBack(installed: Installed[], comeback: Comeback): Promise<void> {
  const { fibers, dependents, active, deadline, signal } = comeback
  // Whose disposers have not ended by now was abandoned; others may wait for its service, and come back after it.
  const isHeldUp = [...dependents].some(isUnloading)
  const expected = [...dependents].filter(fiber => active.has(fiber) && !isUnloading(fiber))
  const providers = installed.flatMap(({ instance, fiber }) => (fiber && active.has(instance.fiber) ? [fiber] : []))
  retryFailed(
    installed.flatMap(({ fiber }) => fiber ?? []),
    fibers
  )
  expected.push(...providers)
  await within(
    deadline,
    settled(() => expected),
    signal
  )
  for (const fiber of expected) {
    if (isHeldUp && fiber.state === FiberState.PENDING) continue
    await assertActive(fiber, providers.includes(fiber) ? 'provider' : 'dependent')
  }
}

/** Fibers that failed on a service that is replaced now: Cordis itself never runs them again. */
function retryFailed(installed: Fiber[], fibers: Fibers): void {
  const services = fibers.services(new Set(installed))
  for (const fiber of fibers.all()) {
    if (fiber.state === FiberState.FAILED && services.some(name => name in fiber.inject)) fibers.retry(fiber)
  }
}

async function assertActive(fiber: Fiber, role: 'provider' | 'dependent'): Promise<void> {
  // Disposed: it belonged to a parent that has applied it again.
  if (fiber.uid === null || isActive(fiber)) return
  const cause = isBusy(fiber) ? undefined : await failureOf(fiber)
  const why = cause === undefined ? whyNotActive(fiber) : messageOf(cause)
  throw new Error(`${role} "${fiber.name}" did not come back: ${why}`, { cause })
}

function whyNotActive(fiber: Fiber): string {
  if (isBusy(fiber)) return 'it is still loading'
  const missing = missingOf(fiber)
  return missing ? `it waits for ${missing}` : 'it is not active'
}

/** The services that a fiber waits for, in words. */
export function missingOf(fiber: Fiber): string {
  return missingServices(fiber)
    .map(name => `"${name}"`)
    .join(', ')
}

/** The services that a fiber waits for. */
export function missingServices(fiber: Fiber): string[] {
  return Object.keys(fiber.inject).filter(name => fiber.ctx.get(name) === undefined)
}

/** What a fiber failed with, if it did. */
export async function failureOf(fiber: Fiber): Promise<unknown> {
  return fiber.await().then(
    () => undefined,
    (error: unknown) => error
  )
}
