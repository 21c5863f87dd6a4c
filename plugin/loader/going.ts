/** What a save of configuration files takes down. */
import type { Fiber } from '../cordis/cordis.ts'
import { isActive, isWithin } from '../cordis/fibers.ts'
import { type Entry, fiberOf } from '../cordis/loader.ts'
import { type Going, objectsOf, type Target, targetsOf } from '../reload/targets.ts'
import type { Edits } from './edits.ts'
import type { RunningRows } from './rows.ts'

/** What goes, and what of it is ours to forget. */
export interface GoingRows extends Going {
  /** Modules of rows that are gone, which nothing else uses. */
  modules: Set<string>
  /** How many of the targets, the first ones, are modules that we have evaluated. */
  own: number
}

/** Finds what goes: rows that end, and those that begin again with another config. */
export function goingOfRows({ edits }: Edits, running: RunningRows): GoingRows {
  const { fibers, providers } = running
  const entries = edits.flatMap(({ entry, isLive }) => (entry && !isLive ? [entry] : []))
  const roots = new Set(entries.flatMap(entry => aliveOf(entry) ?? []))
  const modules = forgettable(edits, running)
  const own = targetsOf(
    providers.all().map(({ module }) => module),
    running
  ).flatMap((target): Target[] => {
    const instances = target.instances.filter(({ fiber }) => isWithin(fiber, roots))
    if (instances.length === 0) return []
    // The scopes of a module that goes on serve its other instances, and the next.
    return [
      {
        ...target,
        instances,
        objects: objectsOf(instances, fibers),
        scopes: modules.has(target.module) ? target.scopes : []
      }
    ]
  })
  const known = new Set(own.flatMap(({ instances }) => instances.map(({ fiber }) => fiber)))
  const others = entries.flatMap(entry => foreignOf(entry, known, running))
  own.sort((a, b) => Number(modules.has(b.module)) - Number(modules.has(a.module)))
  const targets = [...own, ...others]
  const instances = targets.flatMap(target => target.instances)
  const dependents = fibers.dependents(roots)
  const topMost = instances.filter(({ fiber }) => roots.has(fiber) && !isWithin(fiber.parent.fiber, roots))
  return {
    targets,
    instances: topMost,
    dependents,
    scopes: targets.flatMap(target => target.scopes),
    active: new Set([...roots, ...dependents].filter(isActive)),
    modules,
    own: own.length
  }
}

/** The modules of rows that go, and that neither another row nor a module uses. */
function forgettable(edits: Edits['edits'], { host, rows }: RunningRows): Set<string> {
  const gone = new Set(edits.flatMap(({ entry, change }) => (entry && change !== 'configured' ? [entry] : [])))
  const used = new Set(rows.entries().flatMap(entry => (gone.has(entry) ? [] : (rows.moduleOf(entry) ?? []))))
  for (const { next, reading } of edits) if (next) used.add(rows.moduleFor(next.name, reading.tree) ?? '')
  const modules = new Set([...gone].flatMap(entry => rows.moduleOf(entry) ?? []))
  const ours = new Set(host.modules())
  return new Set([...modules].filter(id => !used.has(id) && ours.has(id) && host.importers(id).length === 0))
}

/** A row whose module Node has loaded: it is not one of our generations, and is told of all the same. */
function foreignOf(entry: Entry, known: ReadonlySet<Fiber>, { fibers, providers, rows }: RunningRows): Target[] {
  const fiber = aliveOf(entry)
  if (!fiber || known.has(fiber)) return []
  const module = rows.moduleOf(entry) ?? entry.options.name
  const instance = { module, fiber, plugin: fiber.runtime?.callback, exported: 'default', entry }
  const name = providers.nameOf(module, fiber)
  return [{ module, name, generation: 1, instances: [instance], scopes: [], objects: [fibers.refs(fiber)] }]
}

function aliveOf(entry: Entry): Fiber | undefined {
  const fiber = fiberOf(entry)
  return fiber && fiber.uid !== null ? fiber : undefined
}
