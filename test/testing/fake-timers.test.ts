import { expect, onTestFinished, test, vi } from 'vitest'
import { createHarness, matchers } from '../../plugin/testing.ts'
import { createFolder } from '../fixtures/app.ts'
import { bump, composing, service } from '../fixtures/field-fixture.ts'

expect.extend(matchers)

test('with fake timers a harness is edited and released, and a disposer that hangs ends at the real deadline', async () => {
  const root = createFolder({
    'harness.ts': composing('./agents.ts', './tools.ts'),
    'agents.ts': service('agents'),
    'tools.ts': service('tools', `ctx.effect(() => () => new Promise(() => {}))`)
  })
  vi.useFakeTimers()
  onTestFinished(() => void vi.useRealTimers())
  const harness = await createHarness({ root, entry: 'harness.ts', deadline: 200, vite: { configFile: false } })
  onTestFinished(() => harness.close())
  expect((await harness.edit('agents.ts', bump)).outcome).toBe('reloaded')
  await expect(harness).toHaveReleasedEverything()
  expect(await harness.edit('tools.ts', bump)).toMatchObject({ outcome: 'reloaded', providers: [{ abandoned: true }] })
})
