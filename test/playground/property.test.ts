import * as fc from 'fast-check'
import { onTestFinished, test } from 'vitest'
import { action, expectNoBoundary, expectSoundRun, Run, watchScopes } from './storm.ts'

const { CI, PROPERTY_RUNS, PROPERTY_SEED, PROPERTY_PATH } = process.env

// A failure prints its seed and path; `PROPERTY_SEED=… PROPERTY_PATH=…` runs it again, `PROPERTY_RUNS=…` more often.
test('whatever happens to five agents, each prompt is answered once or cancelled', { timeout: 180_000 }, async () => {
  onTestFinished(watchScopes())
  const property = fc.asyncProperty(fc.array(action, { minLength: 8, maxLength: 40, size: 'max' }), async actions => {
    const run = new Run()
    try {
      await run.start()
      for (const action of actions) await run.act(action)
      await run.finish()
      expectSoundRun(run)
      await expectNoBoundary(run)
    } finally {
      await run.dispose()
    }
  })
  await fc.assert(property, {
    numRuns: Number(PROPERTY_RUNS) || (CI === 'true' ? 200 : 40),
    interruptAfterTimeLimit: 150_000,
    markInterruptAsFailure: true,
    ...(PROPERTY_SEED && { seed: Number(PROPERTY_SEED), path: PROPERTY_PATH })
  })
})
