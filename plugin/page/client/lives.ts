/** The life of each generation: when it came, how long it ran, how it drained, and what became of it. Pure. */
import type { AuditReport, ProviderReport, ReloadReport } from '../../report/report.ts'
import type { FiberNode, LiveStorages, Owner, Snapshot } from '../server/protocol.ts'
import { generationKey } from './state.ts'

/** What became of a generation; `retired` as long as nobody has looked. */
export type End = 'runs' | 'retired' | AuditReport['outcome']

/** One generation of a module. */
export interface Life extends Owner {
  end: End
  /** When it came and when it went, as `Date.now()` counts; `undefined` for before the first report that is known. */
  came: number | undefined
  went: number | undefined
  /** Milliseconds that its drain took, and what became of its boundaries; nothing for one that has not gone. */
  drain: { ms: number; boundaries: ProviderReport['boundaries']; abandoned: boolean } | undefined
  audit: AuditReport | undefined
  /** Its storages that are alive. */
  live: LiveStorages | undefined
}

type Told = Pick<Snapshot, 'reloads' | 'audits' | 'storages' | 'fibers'>

/** What is left comes first, then what runs, then what is gone; of each the newest first. */
export const ENDS: End[] = ['retained', 'pending', 'retired', 'runs', 'collected']

/** The lives of all generations that are known. */
export function lives(told: Told): Life[] {
  const found = new Map<string, Life>()
  const of = ({ module, name, generation }: Owner): Life => {
    const key = generationKey({ module, generation })
    const life = found.get(key) ?? { module, name, generation, end: 'retired', ...NOTHING }
    found.set(key, life)
    return life
  }
  for (const report of told.reloads) for (const provider of report.providers) note(report, provider, of)
  for (const audit of told.audits) Object.assign(of(audit), { audit, end: audit.serves ? 'runs' : audit.outcome })
  for (const live of told.storages) of(live).live = live
  for (const owner of running(told.fibers)) of(owner).end = 'runs'
  for (const life of found.values()) if (life.live?.isCurrent) life.end = 'runs'
  return [...found.values()].toReversed().toSorted((a, b) => ENDS.indexOf(a.end) - ENDS.indexOf(b.end))
}

const NOTHING = { came: undefined, went: undefined, drain: undefined, audit: undefined, live: undefined }

function note(report: ReloadReport, provider: ProviderReport, of: (owner: Owner) => Life): void {
  const { module, name, from, to, boundaries, abandoned } = provider
  // What was not taken down has nothing to tell; and what runs again after a rollback is another generation of the old code.
  if (from === to || from === 0) return
  Object.assign(of({ module, name, generation: from }), {
    went: report.time,
    drain: { ms: report.ms.drain ?? 0, boundaries, abandoned }
  })
  if (to !== null) of({ module, name, generation: to }).came = report.time
}

function running(nodes: FiberNode[]): Owner[] {
  return nodes.flatMap(({ module, name, generation, children }) => [
    ...(module === undefined || generation === undefined ? [] : [{ module, name, generation }]),
    ...running(children)
  ])
}
