/** What agents, children, listeners and disposals from inside may do to each other. */
import * as fc from 'fast-check'
import { providerNames, type ProviderName } from './fixture.ts'

/** Each asks only those after it: agents that wait for each other in a circle wait forever, in any harness. */
export const ids = ['ada', 'bo', 'cy'] as const
const texts = [
  'hello',
  'use add 1 2 then wait 1',
  'use hang',
  'spawn: use wait 1',
  'spawn: spawn: use add 1 2',
  'spawn: use ask cy hello',
  'use ask cy use wait 1',
  'use dismiss'
]
const events = [
  'session/event',
  'agent/created',
  'agent/disposed',
  'agent/delta',
  'agent/step',
  'agent/driving',
  'agent/parked'
] as const

/** What may happen. */
export type Action =
  | { do: 'prompt'; id: string; text: string }
  | { do: 'cancel'; id: string }
  | { do: 'spoil'; event: (typeof events)[number]; rejects: boolean }
  | { do: 'mend' }
  | { do: 'hire' }
  | { do: 'retire' }
  | { do: 'reload'; name: ProviderName }
  | { do: 'pause'; turns: number }

const id = fc.constantFrom(...ids)
const saw = fc
  .tuple(fc.constantFrom('saw', 'restart'), fc.constantFrom(...providerNames))
  .map(words => `use ${words.join(' ')}`)
const task = fc.oneof(
  { weight: 3, arbitrary: fc.constantFrom(...texts) },
  { weight: 2, arbitrary: saw },
  { weight: 1, arbitrary: saw.map(text => `spawn: ${text}`) },
  { weight: 1, arbitrary: saw.map(text => `use ask cy ${text}`) }
)
export const action = fc.oneof(
  { weight: 8, arbitrary: fc.record({ do: fc.constant('prompt'), id, text: task }) },
  { weight: 1, arbitrary: fc.record({ do: fc.constant('cancel'), id }) },
  {
    weight: 2,
    arbitrary: fc.record({ do: fc.constant('spoil'), event: fc.constantFrom(...events), rejects: fc.boolean() })
  },
  { weight: 1, arbitrary: fc.constantFrom({ do: 'mend' }, { do: 'hire' }, { do: 'retire' }) },
  { weight: 1, arbitrary: fc.record({ do: fc.constant('reload'), name: fc.constantFrom(...providerNames) }) },
  { weight: 5, arbitrary: fc.record({ do: fc.constant('pause'), turns: fc.integer({ min: 1, max: 10 }) }) }
) as fc.Arbitrary<Action>
/** How the harness ends before its sessions are taken up by another one. */
export const ending = fc.constantFrom('from inside', 'from outside')
