/** Storages that their generation has not ended itself. */
import { attempt, thrownBy } from '../guard/contain.ts'
import { countOpen, leftEnabled, type LedgerEntry } from './ledger.ts'

/**
 * Disables what a generation left enabled; a scope that was disposed has done so itself. Returns what had been forgotten,
 * and what was thrown: a storage may be of a subclass of the user's.
 */
export function disableStorages(entries: LedgerEntry[]): { forgotten: LedgerEntry[]; failed: unknown[] } {
  const forgotten = leftEnabled(entries)
  const failed: unknown[] = []
  for (const { storage, scope } of entries) {
    if (scope?.deref()?.state === 'disposed') continue
    attempt(
      () => storage.deref()?.disable(),
      error => failed.push(thrownBy('AsyncLocalStorage.disable', error))
    )
  }
  return { forgotten, failed }
}

/** Disables once more what a retired generation has entered since, where that has ended: it would be kept forever. */
export function disableEnteredAgain(entries: LedgerEntry[]): LedgerEntry[] {
  const again = entries.filter(entry => !entry.scope && entry.enabled && countOpen([entry]) === 0)
  return disableStorages(again).forgotten
}
