/**
 * The transaction. A change is tried before anything is taken down, and what was taken down comes back when it fails.
 *
 * ```
 *   affected ──▶ stage ──▶ close ──▶ drain ──▶ disable ──▶ install ──▶ audit
 *      │           │                                          │
 *   ignored      kept: the old version                  rolled-back: the old version
 *                never noticed                          is installed again
 * ```
 */
import type { Auditor, Retired } from './audit.ts'
import { describeError } from './describe-error.ts'
import { close, type Closing, countBoundaries, disable, drain, tell } from './drain.ts'
import { type Fiber } from './cordis.ts'
import { type Fibers, type Instance, isActive, isUnloading, isWithin, successor } from './fibers.ts'
import type { Host, Stage } from './host.ts'
import { install, type Replacement } from './install.ts'
import { listenerGrowth, processListeners } from './leftovers.ts'
import { countOpen, type Ledger, openIn } from './ledger.ts'
import { type Cause, planOf, type ReloadPlan } from './plan.ts'
import type { ProviderReport, ReloadReport, Step } from './report.ts'
import type { Resources } from './resources.ts'
import type { Boundary } from './scope.ts'
import { disableLate, keepShared, retire, straysOf, type Target, targetsOf, topMost } from './targets.ts'

/** The limits of a reload, in milliseconds; `Infinity` waits for ever. */
export interface Limits {
  /** How long drivers may take to park before the old instances are disposed. */
  grace: number
  /** After this time a drain is said to be slow, and what it waits for. */
  warnAfter: number
  /** After this time the reload goes on without the drain. */
  deadline: number
}

/** A drain that takes longer than `warnAfter`. */
export interface SlowDrain {
  /** Whose, e.g. `"agents 4"`. */
  providers: string[]
  /** The boundaries that are still open: the oldest, and how many in all. */
  open: Boundary[]
  total: number
  /** Dependents whose disposers have not ended. */
  unloading: string[]
}

/** How many of the boundaries that a slow drain waits for are told. */
const SLOW_SHOWN = 20

/** The step that a reload is in. */
export interface Progress {
  /** The reload's id. */
  reload: number
  step: Step
  /** When the step and the whole reload began, as `Date.now()` counts. */
  since: number
  began: number
  /** What is replaced, with the generation that goes; empty until that is known. */
  providers: { module: string; name: string; generation: number }[]
}

/** The running harness, as far as a reload needs it. */
export interface Running {
  /** Module id of the entry. */
  entry: string
  host: Host
  fibers: Fibers
  ledger: Ledger
  resources: Resources
  auditor: Auditor
  limits: Limits
  /** Told what a slow drain waits for. */
  onSlow(drain: SlowDrain): void
  /** Told of every step that begins. */
  onStep(progress: Progress): void
}

/**
 * Replaces what a cause reaches. Never throws for what the user's code does: the report says it.
 * @param giveUp - ends the drain when it is aborted, as the deadline does.
 */
export async function reload(id: number, cause: Cause, running: Running, giveUp?: AbortSignal): Promise<ReloadReport> {
  const { host, fibers, ledger, limits } = running
  const report = emptyReport(id, cause)
  const step = stepsOf(report, running)

  const plan = await step('affected', () => planOf(cause, running))
  if (plan.kind === 'ignored') return Object.assign(report, { reason: plan.reason })
  if (plan.kind === 'restart') report.reason = plan.reason
  const targets = targetsOf(plan.modules, host, fibers, ledger)
  const scopes = targets.flatMap(target => target.scopes)
  const going = targets.flatMap(({ instances }) => instances.map(({ fiber }) => fiber))
  const dependents = fibers.dependents(going)
  const instances = topMost(targets, dependents)
  const active = new Set([...going, ...dependents].filter(isActive))
  report.providers = targets.map(providerReport)

  const staged = await step.attempt('stage', () => stage(plan, instances, host, cause.frozen))
  if (!staged) {
    audit([], id, running)
    return Object.assign(report, { outcome: 'kept' })
  }

  const listeners = processListeners()
  const closing = await step('close', () => close(instances, fibers, scopes, limits.grace))
  step.failed(closing.failed)
  const slow = () => running.onSlow(slowDrain(targets, dependents, ledger))
  const inTime = await step('drain', () => drain(closing, limits, slow, giveUp))
  const retired = await step('disable', async () => {
    step.failed(await host.hot.dispose(plan.modules))
    return targets.map((target, i) => disableTarget(target, report.providers[i]!, id, closing, ledger))
  })
  if (!inTime) {
    for (const { name } of [...dependents].filter(isUnloading))
      report.failures.push(`dependent "${name}" has not ended`)
    void closing.gone.then(fibers.evict(new Set(closing.going)))
  }
  for (const name of await fibers.clearLeftovers(dependents, limits.deadline)) {
    report.failures.push(`"${name}" created effects while it was unloading; they were disposed`)
  }
  const created = new Map<string, WeakRef<object>[][]>()
  const installed = await step.attempt('install', () => {
    staged.commit()
    return install(staged.successors, dependents, active, fibers, limits.deadline, created)
  })
  if (installed) step.failed(await staged.accept())
  else await rollBack(staged, created, instances, dependents, active, running, report)
  report.failures.push(...listenerGrowth(listeners))
  report.outcome = !installed ? 'rolled-back' : plan.kind === 'restart' ? 'restarted' : 'reloaded'
  for (const [i, { module }] of targets.entries()) report.providers[i]!.to = host.version(host.exports(module))
  step.failed(await tell(fibers, 'harness-hmr/after-reload'))
  // After a rollback the old code serves again, in new instances.
  if (!installed) for (const generation of retired) Object.assign(generation, { storages: [], serves: true })
  audit(retired, id, running)
  return report
}

/** What a drain waits for. */
function slowDrain(targets: Target[], dependents: ReadonlySet<Fiber>, ledger: Ledger): SlowDrain {
  const storages = targets.flatMap(target => ledger.entriesOf(target))
  return {
    providers: targets.map(({ name, generation }) => `${name} ${generation}`),
    open: openIn(storages, SLOW_SHOWN).slice(0, SLOW_SHOWN),
    total: countOpen(storages),
    unloading: [...dependents].filter(isUnloading).map(({ name }) => name)
  }
}

/** Disables what a provider has left enabled, unless its drain goes on, and says what became of its boundaries. */
function disableTarget(target: Target, report: ProviderReport, id: number, closing: Closing, ledger: Ledger): Retired {
  const abandoned = target.instances.some(({ fiber }) => isWithin(fiber, closing.going))
  Object.assign(report, { boundaries: countBoundaries(target.scopes, closing), abandoned })
  const storages = ledger.entriesOf(target)
  const forgotten = abandoned ? [] : disable(storages)
  return retire(target, id, storages, forgotten, abandoned ? closing.gone : undefined)
}

/** Hands over what has to be gone; with that, whatever a version has started that was evaluated and does not run. */
function audit(retired: Retired[], id: number, running: Running): void {
  for (const generation of retired) {
    keepShared(generation, running.fibers)
    if (!generation.serves) disableLate(generation)
    running.auditor.add(generation)
  }
  for (const stray of straysOf(id, running)) running.auditor.add(stray)
}

type Reaching = Exclude<ReloadPlan, { kind: 'ignored' }>
type Staged = Stage & { successors: Replacement[]; accept: () => Promise<unknown[]> }

/** Evaluates the new versions and finds the successor of every instance among their exports. */
async function stage(
  { modules, roots, accepted }: Reaching,
  instances: Instance[],
  host: Host,
  frozen: string[]
): Promise<Staged> {
  const staged = await host.stage(modules, roots, frozen)
  try {
    const successors = instances.map(instance => {
      const exports = staged.exports(instance.module)
      const plugin = exports && successor(instance, exports)
      if (!plugin)
        throw new Error(
          `provider "${instance.fiber.name}": the new version does not export a plugin as "${instance.exported}"`
        )
      return { instance, plugin }
    })
    const { hot } = host
    const callbacks = accepted.map(({ by, dep }) => hot.handOver(by, dep, () => host.exports(dep)))
    callbacks.push(hot.pruner(staged.unused))
    const accept = async () => {
      const thrown: unknown[] = []
      for (const call of callbacks) thrown.push(...(await call()))
      return thrown
    }
    return { ...staged, successors, accept }
  } catch (error) {
    await staged.drop()
    throw error
  }
}

/** The old versions, in place again. What the new ones created goes the way of every retired generation. */
async function rollBack(
  staged: Staged,
  created: ReadonlyMap<string, WeakRef<object>[][]>,
  instances: Instance[],
  dependents: Set<Fiber>,
  active: Set<Fiber>,
  running: Running,
  report: ReloadReport
) {
  const { host, fibers, ledger, auditor, limits } = running
  const failed = report.providers.map(({ module, name }) => ({
    module,
    name,
    generation: host.version(host.exports(module))
  }))
  report.failures.push(...(await staged.revert()).map(error => describeError(error, 'install').message))
  for (const generation of failed) {
    const storages = ledger.entriesOf(generation)
    const objects = created.get(generation.module) ?? []
    auditor.add(retire({ ...generation, objects }, report.id, storages, disable(storages)))
  }
  const replacements = instances.map(instance => ({ instance, plugin: instance.plugin }))
  await install(replacements, dependents, active, fibers, limits.deadline).catch((error: unknown) => {
    fibers.vacate(instances)
    report.failures.push(`the old version did not come back: ${describeError(error, 'install').message}`)
  })
}

function emptyReport(id: number, { files, modules }: Cause): ReloadReport {
  return {
    type: 'reload',
    id,
    time: Date.now(),
    cause: [...files, ...modules],
    outcome: 'ignored',
    failures: [],
    providers: [],
    ms: {}
  }
}

function providerReport({ module, name, generation, instances }: Target): ProviderReport {
  return {
    module,
    name,
    from: generation,
    to: generation,
    instances: instances.length,
    boundaries: { drained: 0, released: 0, abandoned: 0 },
    abandoned: false
  }
}

/** Runs the steps of one reload: notes their time, and for an attempt what went wrong instead of throwing it. */
function stepsOf(report: ReloadReport, { onStep }: Running) {
  const began = Date.now()
  const step = async <T>(name: Step, work: () => T | Promise<T>): Promise<T> => {
    const start = performance.now()
    const providers = report.providers.map(({ module, name, from }) => ({ module, name, generation: from }))
    onStep({ reload: report.id, step: name, since: Date.now(), began, providers })
    try {
      return await work()
    } finally {
      report.ms[name] = performance.now() - start
    }
  }
  const attempt = async <T>(name: Step, work: () => T | Promise<T>): Promise<T | undefined> => {
    try {
      return await step(name, work)
    } catch (error) {
      report.error = describeError(error, name)
      return undefined
    }
  }
  const failed = (errors: unknown[]) => {
    report.failures.push(...errors.map(error => describeError(error, 'install').message))
  }
  return Object.assign(step, { attempt, failed })
}
