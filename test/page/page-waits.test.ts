/** The page while a reload waits: who holds it up is at the top, by name, and can be left behind. */
import type { Page } from 'playwright-core'
import { describe, expect, onTestFinished, test } from 'vitest'
import { gate } from '../fixtures/app.ts'
import { noBrowser } from '../fixtures/browser.ts'
import { service } from '../fixtures/field-fixture.ts'
import { bump, files, openHarness } from '../fixtures/page-fixture.ts'

/** The browser's, in functions that run there: these files are checked without its types. */
declare const document: any

const waits = (page: Page) => page.locator('.now .waits li')
const loop = {
  'harness.ts': files['harness.ts']
    .replace('ctx.plugin(Tools)', 'ctx.plugin(Tools)\nctx.plugin(Loop)')
    .replace('import Agents', `import Loop from './loop.ts'\nimport Agents`),
  'loop.ts': service(
    'loop',
    `ctx.on('harness-hmr/before-reload', async ({ waitsFor }) => {
      for (const id of ['ada', 'bo']) waitsFor(id, gate(id).promise, 'tool call "' + id + '"')
      await Promise.all([gate('ada').promise, gate('bo').promise])
    })`
  )
}
const letGo = (...names: string[]) => onTestFinished(() => names.forEach(name => gate(name).resolve()))

describe.skipIf(noBrowser)('the live page', () => {
  test('names the drivers that have not parked, with their step, and abandons their parking', async () => {
    const { app, page } = await openHarness({ grace: 60_000 }, loop)
    letGo('ada', 'bo')
    const reloading = app.edit('agents.ts', bump)
    await waits(page)
      .filter({ hasText: /loop 1.*driver.*ada.*tool call "ada"/ })
      .waitFor()
    await page.getByText('waits for 2 to park').waitFor()
    await page.getByText('goes on after 1 min').waitFor()
    gate('ada').resolve()
    await page.getByText('waits for 1 to park').waitFor()
    expect(await waits(page).allTextContents()).toEqual([expect.stringMatching(/bo/)])
    await page.getByRole('button', { name: 'Abandon the parking' }).click()
    await page.locator('.notice', { hasText: 'the reload goes on without those that have not parked' }).waitFor()
    expect(await reloading).toMatchObject({ outcome: 'reloaded', providers: [{ abandoned: false }] })
    await waits(page).first().waitFor({ state: 'detached' })
  })

  test('names the boundaries and the dependents that a drain waits for', async () => {
    const { app, page } = await openHarness(
      { deadline: Infinity },
      {
        'tools.ts': files['tools.ts'].replace(`'tools') }`, `'tools'); ctx.effect(() => () => gate('tools').promise) }`)
      }
    )
    letGo('tools', 'held')
    void app.service('agents')['work']('ada', gate('held').promise)
    const reloading = app.edit('agents.ts', bump)
    await page.getByText('waits for 1 open boundary and 1 dependent').waitFor()
    await waits(page)
      .filter({ hasText: /agents 1.*boundary.*ada/ })
      .waitFor()
    await waits(page)
      .filter({ hasText: /agents.*dependent.*tools 1/ })
      .waitFor()
    gate('held').resolve()
    await page.getByText('waits for 1 dependent').waitFor()
    gate('tools').resolve()
    expect(await reloading).toMatchObject({ outcome: 'reloaded' })
  })

  test('keeps the order and the entries of the tree while it drains', async () => {
    const { app, page } = await openHarness({ deadline: Infinity }, loop)
    letGo('ada', 'bo', 'held')
    const names = () => page.locator('.node-name').allTextContents()
    void app.service('agents')['work']('ada', gate('held').promise)
    await page.locator('.node').nth(3).waitFor()
    const before = await names()
    // Whatever is shown in between is noted, not only what a look happens to meet.
    await page.evaluate(() => {
      const seen = new Set<string>()
      const note = () =>
        seen.add([...document.querySelectorAll('.node-name')].map((node: any) => node.textContent).join())
      // eslint-disable-next-line no-new
      new (globalThis as any).MutationObserver(note).observe(document.querySelector('#app'), {
        childList: true,
        subtree: true,
        characterData: true
      })
      Object.assign(globalThis, { seen })
    })
    const reloading = app.edit('agents.ts', bump)
    await page.getByRole('button', { name: 'Abandon the parking' }).click()
    await page.locator('.state.unloading').first().waitFor()
    gate('held').resolve()
    await reloading
    await page.locator('.generation', { hasText: '2' }).waitFor()
    expect(await names()).toEqual(before)
    expect(await page.evaluate(() => [...(globalThis as any).seen])).toEqual([before.join()])
  })

  test('fits into 390 pixels while it closes', async () => {
    const { app, page } = await openHarness({ grace: 60_000 }, loop, { viewport: { width: 390, height: 800 } })
    letGo('ada', 'bo')
    const reloading = app.edit('agents.ts', bump)
    await waits(page).nth(1).waitFor()
    expect(await page.evaluate(() => document.documentElement.scrollWidth)).toBeLessThanOrEqual(390)
    gate('ada').resolve()
    gate('bo').resolve()
    expect((await reloading).outcome).toBe('reloaded')
  })
})
