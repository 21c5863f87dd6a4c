/** What became of the agents in one reload, in one line. */
import { plural } from '../report/report.ts'
import type { Parked } from './parked.ts'

/**
 * The line, e.g. `agents 2 parked, 2 back, 3 messages kept`.
 * @param gone - those that the reload has disposed.
 * @param lost - why some of them are not back.
 */
export function summary(all: readonly Parked[], gone: readonly Parked[], lost: readonly string[]): string {
  const wentOn = all.length - gone.length
  const back = gone.length - lost.length
  const messages = gone.reduce((sum, parked) => sum + parked.messages, 0)
  const cut = gone.filter(({ isMidTurn }) => isMidTurn).length
  const forgetful = gone.filter(({ isForgetful }) => isForgetful).map(({ id }) => id)
  return [
    `agents ${all.length} parked`,
    wentOn > 0 && `${wentOn} went on`,
    gone.length > 0 && `${back} back`,
    messages > 0 && `${plural(messages, 'message')} ${lost.length > 0 ? 'held' : 'kept'}`,
    cut > 0 && `${plural(cut, 'turn')} cut and taken up by a notice`,
    forgetful.length > 0 && `without a transcript: ${forgetful.join(', ')} (no session persistence)`,
    lost.length > 0 && `lost ${lost.join('; ')}`
  ]
    .filter(Boolean)
    .join(', ')
}
