/** What the page says is what is so. */
import type { Page } from 'playwright-core'
import { describe, expect, onTestFinished, test } from 'vitest'
import { gate } from '../fixtures/app.ts'
import { noBrowser } from '../fixtures/browser.ts'
import { bump, files, openHarness } from '../fixtures/page-fixture.ts'

/** The browser's, in functions that run there: these files are checked without its types. */
declare const document: any, navigator: any, getComputedStyle: (element: any) => any

const node = (page: Page, name: string) =>
  page.locator('.node').filter({ has: page.locator('.node-name', { hasText: new RegExp(`^${name}$`) }) })
const BROKEN = 'its newest content does not run'

describe.skipIf(noBrowser)('the live page', () => {
  test('says `mended` when the old content is saved again, after `kept` and after `rolled-back`', async () => {
    const { app, page } = await openHarness()
    const heading = page.locator('#now')
    await app.edit('agents.ts', source => `${source}\nexport const broken = (`)
    await heading.filter({ hasText: 'kept' }).waitFor()
    app.write('agents.ts', files['agents.ts'])
    await heading.filter({ hasText: /mended\s*agents 1/ }).waitFor()
    await app.edit('agents.ts', source =>
      source.replace("super(ctx, 'agents')", "super(ctx, 'agents'); throw new Error('no')")
    )
    await heading.filter({ hasText: /rolled-back\s*agents 1 → 3/ }).waitFor()
    await node(page, 'agents').getByText(BROKEN).waitFor()
    app.write('agents.ts', files['agents.ts'])
    await heading.filter({ hasText: /mended\s*agents 3/ }).waitFor()
    await node(page, 'agents').getByText(BROKEN).waitFor({ state: 'detached' })
    expect(await page.locator('.reload').first().textContent()).toContain('mended')
  })

  test('marks a provider whose helper is broken, and no other', async () => {
    const { app, page } = await openHarness(
      {},
      {
        'tools.ts': `import { depth } from './depth.ts'\n${files['tools.ts']}\nvoid depth`,
        'depth.ts': 'export const depth = 1'
      }
    )
    await app.edit('depth.ts', 'export const depth = (')
    await node(page, 'tools').getByText(BROKEN).waitFor()
    // Tried together, and then alone: what is broken stays so, and says nothing of who is not.
    await app.edit('agents.ts', bump)
    expect(await app.next('reload')).toMatchObject({ outcome: 'reloaded' })
    await node(page, 'agents').locator('.generation', { hasText: /[23]/ }).waitFor()
    expect(await page.getByText(BROKEN).count()).toBe(1)
    await app.edit('depth.ts', 'export const depth = 1')
    await page.getByText(BROKEN).waitFor({ state: 'detached' })
  })

  test('says in its title and icon what is broken, and no more when it is mended', async () => {
    const { app, page } = await openHarness()
    const icon = () => page.locator('link[rel=icon]').getAttribute('href')
    await app.edit('agents.ts', source => `${source}\nexport const broken = (`)
    await page.waitForFunction(() => document.title === 'kept agents · harness-hmr')
    expect(await icon()).toContain('b7791f')
    app.write('agents.ts', files['agents.ts'])
    await page.waitForFunction(() => document.title === 'harness-hmr')
    expect(await icon()).toContain('2f9e63')
  })

  test('answers an audit with counts, and hands a report over as JSON', async () => {
    const { app, page } = await openHarness({}, {}, { permissions: ['clipboard-read', 'clipboard-write'] })
    const report = await app.edit('tools.ts', bump)
    await app.next('audit')
    await page.getByRole('button', { name: 'Audit now' }).click()
    await page.locator('.notice', { hasText: 'audited: 1 collected' }).waitFor()
    await page.locator('.reload .row').first().click()
    await page.getByRole('button', { name: 'Copy as JSON' }).click()
    await page.getByRole('button', { name: 'Copied' }).waitFor()
    expect(JSON.parse(await page.evaluate(() => navigator.clipboard.readText()))).toEqual(report)
  })

  test('does not show a reload that has left its drain behind as simply good', async () => {
    const { app, page } = await openHarness({ deadline: 100, warnAfter: 10 })
    void app.service('agents')['work']('ada', gate('held').promise)
    onTestFinished(() => gate('held').resolve())
    expect(await app.edit('agents.ts', bump)).toMatchObject({ providers: [{ abandoned: true }] })
    await page.locator('#now').getByText('drain abandoned').waitFor()
    const colour = (selector: string) =>
      page
        .locator(selector)
        .first()
        .evaluate((element: any) => getComputedStyle(element).color)
    const track = (step: string) =>
      page.locator('.track li', { hasText: step }).evaluate((element: any) => getComputedStyle(element).borderTopColor)
    expect(await colour('.reload .outcome')).not.toBe(await colour('.verdict.runs'))
    expect(await colour('#now .outcome')).not.toBe(await colour('.verdict.runs'))
    expect(await track('drain')).not.toBe(await track('install'))
    // The life of the generation, in one row.
    await page.locator('.life', { hasText: /agents 1.*1 boundary.*abandoned.*pending/ }).waitFor()
    gate('held').resolve()
    await page.locator('.life', { hasText: /agents 1.*collected.*gone/ }).waitFor()
  })
})
