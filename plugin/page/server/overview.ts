/** What can be seen of a running harness at one moment: its fibers, its open boundaries, its live storages. Changes nothing. */
import { type Fiber, FiberState } from '../../cordis/cordis.ts'
import { printable } from '../../guard/printable.ts'
import { generationKey } from '../../audit/creators.ts'
import { countOpen, type LedgerEntry, openIn } from '../../audit/ledger.ts'
import type { FiberNode, FiberStateName, LiveStorages, OpenBoundaries, OpenBoundary, Owner } from './protocol.ts'
import type { Running } from '../../reload/running.ts'
import { type Location, mapStack } from '../../report/script.ts'

/** How many open boundaries are listed; the others are counted. */
const BOUNDARIES_SHOWN = 200
/** How many places of a stack are told. */
const PLACES = 6

const STATE_NAMES = Object.fromEntries(
  Object.entries(FiberState).map(([name, state]) => [state, name.toLowerCase() as FiberStateName])
)

/** What is seen of the running harness. */
export interface Overview {
  fibers: FiberNode[]
  boundaries: OpenBoundaries
  storages: LiveStorages[]
}

/** Looks at a harness. The cost grows with its fibers and modules; of its boundaries only the oldest are looked at. */
export function overview(running: Running): Overview {
  const owners = ownersOf(running)
  const entries = byOwner(running, owners)
  return printable({
    fibers: fiberTree(running, owners),
    boundaries: openBoundaries(entries, running),
    storages: entries.map(({ owner, storages }) => ({
      ...owner,
      storages: storages.length,
      open: countOpen(storages),
      isCurrent: owners.current.get(owner.module)?.generation === owner.generation
    }))
  })
}

interface Owners {
  /** The provider module whose plugin a fiber runs. */
  fibers: Map<Fiber, Owner>
  /** The running generation of each provider module. */
  current: Map<string, Owner>
}

function ownersOf({ providers }: Running): Owners {
  const owners: Owners = { fibers: new Map(), current: new Map() }
  for (const { module, name, generation, instances } of providers.all()) {
    const owner = { module, name, generation }
    owners.current.set(module, owner)
    for (const { fiber } of instances) owners.fibers.set(fiber, owner)
  }
  return owners
}

/** Live storages by the generation that they belong to, in the order of their creation. */
function byOwner({ ledger, providers }: Running, { current }: Owners): { owner: Owner; storages: LedgerEntry[] }[] {
  const groups = new Map<string, { owner: Owner; storages: LedgerEntry[] }>()
  for (const entry of ledger.live()) {
    const generationOf = ledger.ownerOf(entry)
    if (!generationOf) continue
    const { module, generation } = generationOf
    const key = generationKey({ module, generation })
    const name = current.get(module)?.name ?? providers.of(module).name
    const group = groups.get(key) ?? { owner: { module, name, generation }, storages: [] }
    groups.set(key, group)
    group.storages.push(entry)
  }
  return [...groups.values()]
}

function openBoundaries(entries: ReturnType<typeof byOwner>, running: Running): OpenBoundaries {
  const seen = new Map<string, number>()
  const listed = entries.flatMap(({ owner, storages }) =>
    openIn(storages, BOUNDARIES_SHOWN).map(({ label, since, opened }): OpenBoundary => {
      // Those that were opened in the same instant are told apart by their place.
      const instant = `${generationKey(owner)} ${since}`
      const nth = seen.get(instant) ?? 0
      seen.set(instant, nth + 1)
      return {
        ...owner,
        key: `${instant} ${nth}`,
        label,
        since: Math.round(performance.timeOrigin + since),
        opened: placesOf(opened.join('\n'), running)
      }
    })
  )
  const total = entries.reduce((sum, { storages }) => sum + countOpen(storages), 0)
  return { total, oldest: listed.toSorted((a, b) => a.since - b.since).slice(0, BOUNDARIES_SHOWN) }
}

const PLACE = /((?:[a-zA-Z]:)?[^\s():]*):(\d+):(\d+)\)?$/gm
const known = new Map<string, Location[]>()

/** Places in the harness' own files. Most boundaries are opened by few stacks, and a source map is expensive. */
export function placesOf(stack: string, { host }: Running): Location[] {
  const found = known.get(stack)
  if (found) return found
  const places = [...mapStack(stack).matchAll(PLACE)]
    .map(([, file, line, column]) => ({ file: file!, line: Number(line), column: Number(column) }))
    .filter(({ file }) => host.evaluates(file))
    .slice(0, PLACES)
  if (known.size > 1000) known.clear()
  known.set(stack, places)
  return places
}

/**
 * The fibers as a tree. Siblings of one plugin are one node: a harness may have a fiber per agent, and thousands of agents.
 */
function fiberTree({ fibers }: Running, owners: Owners): FiberNode[] {
  const children = new Map<Fiber, Fiber[]>()
  for (const fiber of fibers.inOrder()) {
    const siblings = children.get(fiber.parent.fiber) ?? []
    children.set(fiber.parent.fiber, siblings)
    siblings.push(fiber)
  }
  const services = new Map<Fiber, string[]>()
  const { store } = fibers.root.reflect
  const available = new Set<string>()
  for (const key of Object.getOwnPropertySymbols(store)) {
    const { fiber, name } = store[key]!
    services.set(fiber, [...(services.get(fiber) ?? []), name])
    available.add(name)
  }
  const nodesOf = (parents: Fiber[], path: string): FiberNode[] => {
    const groups = new Map<string, Fiber[]>()
    for (const fiber of parents.flatMap(parent => children.get(parent) ?? [])) {
      const key = `${path}/${fiber.name} ${owners.fibers.get(fiber)?.module ?? ''}`
      groups.set(key, [...(groups.get(key) ?? []), fiber])
    }
    return [...groups].map(([key, group]) => {
      const owner = owners.fibers.get(group[0]!)
      return {
        key,
        name: owner?.name ?? group[0]!.name,
        states: countStates(group),
        provides: distinct(group.flatMap(fiber => services.get(fiber) ?? [])),
        waitsFor: distinct(group.flatMap(fiber => missing(fiber, available))),
        module: owner?.module,
        generation: owner?.generation,
        children: nodesOf(group, key)
      }
    })
  }
  return nodesOf([fibers.root.fiber], '')
}

function countStates(fibers: Fiber[]): FiberNode['states'] {
  const states: FiberNode['states'] = {}
  for (const { state } of fibers) {
    const name = STATE_NAMES[state] ?? 'pending'
    states[name] = (states[name] ?? 0) + 1
  }
  return states
}

/** What a fiber that is not there yet waits for. */
function missing({ state, inject }: Fiber, available: ReadonlySet<string>): string[] {
  return state === FiberState.PENDING ? Object.keys(inject).filter(name => !available.has(name)) : []
}

function distinct(names: string[]): string[] {
  return [...new Set(names)].slice(0, 12)
}
