import * as fc from 'fast-check'
import { test } from 'vitest'
import { promptly } from '../promptly.ts'
import { action, ending } from './sequence-actions.ts'
import { expectOneEndEach, Sequence } from './sequences.ts'

const { RANDOM_RUNS, RANDOM_SEED, RANDOM_PATH } = process.env

// `RANDOM_SEED=… RANDOM_PATH=…` runs a failure again, `RANDOM_RUNS=1000` more of them.
test(
  'whatever turns, children, bad listeners and teardowns from inside do, each prompt has exactly one end',
  { timeout: 3_600_000 },
  async () => {
    const sequences = fc.asyncProperty(
      fc.array(action, { minLength: 5, maxLength: 25, size: 'max' }),
      fc.option(ending, { freq: 2 }),
      async (actions, how) => {
        const run = new Sequence()
        await run.start()
        try {
          for (const action of actions) await promptly(run.act(action), action.do, 10_000)
          if (how) {
            await run.end(how)
            await run.start()
          }
          await run.finish()
        } finally {
          await promptly(run.harness.root.fiber.dispose(), 'disposal')
        }
        expectOneEndEach(run)
      }
    )
    await fc.assert(sequences, {
      numRuns: Number(RANDOM_RUNS) || 30,
      seed: Number(RANDOM_SEED) || 1,
      ...(RANDOM_PATH && { path: RANDOM_PATH })
    })
  }
)
