/** Storages that several modules share, through `globalThis` for one: they outlive the one that happened to make them. */
import type { Retired } from './audit.ts'
import { isSameGeneration, type Generation } from './creators.ts'
import { isActive } from '../cordis/fibers.ts'
import type { Providers } from '../cordis/providers.ts'
import type { Host } from '../modules/host.ts'
import type { Ledger, LedgerEntry } from './ledger.ts'
import type { SharedStorage } from '../report/report.ts'

/** What it takes to tell who lives. */
export interface Living {
  ledger: Ledger
  host: Host
  providers: Providers
}

/**
 * Parts what only a generation that retires has entered from what a living one has entered too. The latter becomes that
 * one's, and is disabled when it retires.
 * @param going - modules that are being replaced, and still seem to run.
 */
export function handOver(
  storages: readonly LedgerEntry[],
  retired: Generation,
  living: Living,
  going: ReadonlySet<string> = new Set()
): { own: LedgerEntry[]; shared: SharedStorage[] } {
  const own: LedgerEntry[] = []
  const shared: SharedStorage[] = []
  for (const entry of storages) {
    const users = living.ledger.usersOf(entry).filter(user => !isSameGeneration(user, retired))
    const names = users.flatMap(user => (going.has(user.module) ? [] : (livingName(user, living) ?? [])))
    const [by] = names
    if (!by) {
      own.push(entry)
      continue
    }
    entry.owner = by.user
    shared.push({ location: entry.created, by: names.map(({ name }) => name).join(', ') })
  }
  return { own, shared }
}

/** The same for a generation that has retired before. */
export function leaveShared(retired: Retired, living: Living): void {
  const { own, shared } = handOver(retired.storages, retired, living)
  retired.storages = own
  retired.shared.push(...shared)
}

/** What a generation is called that runs and, where it is a provider's, serves. */
function livingName(
  user: Generation,
  { ledger, host, providers }: Living
): { user: Generation; name: string } | undefined {
  const { module, generation } = user
  if (!host.runs(module, generation)) return undefined
  const { name, instances } = providers.of(module)
  if (ledger.isProvider(module) && !instances.some(({ fiber }) => isActive(fiber))) return undefined
  return { user, name: `${name} ${generation}` }
}
