/** What the page says is what is so. */
import type { Page } from 'playwright-core'
import { describe, expect, test } from 'vitest'
import { noBrowser } from '../fixtures/browser.ts'
import { bump, files, openHarness } from '../fixtures/page-fixture.ts'

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
})
