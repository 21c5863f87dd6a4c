import type { Page } from 'playwright-core'
import { describe, expect, onTestFinished, test } from 'vitest'
import { gate, seq } from '../fixtures/app.ts'
import { noBrowser, openPage } from '../fixtures/browser.ts'
import { DevServer } from '../fixtures/dev-server.ts'
import { bump, files, openHarness, pageOf } from '../fixtures/page-fixture.ts'
import { createCopy } from '../fixtures/probe.ts'
import { promptly } from '../promptly.ts'
import { anyPort } from '../fixtures/port.ts'

/** The browser's, in functions that run there: these files are checked without its types. */
declare const window: any, document: any, NodeFilter: any, getComputedStyle: (element: any) => any
declare function named(element: unknown): string

/** The row of a provider in the tree. */
const provider = (page: Page, name: string) =>
  page.locator('.node').filter({ has: page.locator('.node-name', { hasText: new RegExp(`^${name}$`) }) })
const generation = (page: Page, name: string) => provider(page, name).locator('.generation')
const reloads = (page: Page) => page.locator('.reload')

describe.skipIf(noBrowser)('the live page', () => {
  test('shows the tree of providers, and the generation that a save on disk brings', async () => {
    const { app, page } = await openHarness()
    await generation(page, 'agents').getByText('1', { exact: true }).waitFor()
    await page.getByText('Nothing was reloaded since').waitFor()
    await app.edit('agents.ts', bump)
    await generation(page, 'agents').getByText('2', { exact: true }).waitFor()
    await expectText(reloads(page).first(), /reloaded.*agents 1 → 2.*agents\.ts/s)
    expect(await generation(page, 'tools').textContent()).toBe('1')
    await page.locator('.verdict.collected').first().waitFor()
  })

  test('shows where a broken save is broken, and that the old generation goes on', async () => {
    const { app, page } = await openHarness()
    await app.edit('agents.ts', source => `${source}\nexport const broken = <b>(`)
    await reloads(page).first().locator('.frame').waitFor()
    const row = reloads(page).first()
    await expectText(row, /kept.*agents 1/s)
    expect(await row.locator('.frame .marked').textContent()).toContain('export const broken = <b>(')
    await expectText(row, /the old version goes on/)
    await expectText(provider(page, 'agents'), /its newest content does not run/)
    expect(await generation(page, 'agents').textContent()).toBe('1')
    expect(await provider(page, 'agents').locator('.dot').getAttribute('class')).toContain('active')
    expect(app.service('agents')).toBeDefined()
  })

  test('opens a place in the editor', async () => {
    const { app, page } = await openHarness()
    await app.edit('agents.ts', source => `${source}\nexport const broken = (`)
    // Vite opens the editor itself; which one there is does not matter here.
    const opened = page.waitForRequest(request => request.url().includes('__open-in-editor'))
    await page.route('**/__open-in-editor*', route => route.fulfill({ status: 200 }))
    await reloads(page).first().locator('.error .place').click()
    const file = new URL((await opened).url()).searchParams.get('file')
    expect(file).toMatch(new RegExp(`^${app.root}/agents\\.ts:\\d+:\\d+$`))
  })

  test('names the interval that a retired generation has left, with its line', async () => {
    const { app, page } = await openHarness({ trace: true })
    const leaky = files['agents.ts'].replace(
      "super(ctx, 'agents')",
      "super(ctx, 'agents')\n        gate('leak').resolve(setInterval(() => this.scope.name, 60_000) as never)"
    )
    await app.edit('agents.ts', leaky)
    const interval = (await gate('leak').promise) as unknown as NodeJS.Timeout
    onTestFinished(() => clearInterval(interval))
    const line = leaky.split('\n').findIndex(text => text.includes('setInterval')) + 1
    await app.edit('agents.ts', bump)
    const retained = page.locator('tr', { has: page.locator('.verdict.retained') })
    await expectText(retained, /agents 2/)
    await expectText(page.locator('.retainers').first(), new RegExp(`setInterval.*agents\\.ts:${line}`, 's'))
  })

  test('says why a generation is retained when it is asked, with the place that keeps it', async () => {
    // In a process of its own: a snapshot of the heap stops it, and a small heap for a moment only.
    const copy = createCopy()
    const vite = [
      process.execPath,
      'node_modules/vite/bin/vite.js',
      '--port',
      String(anyPort()),
      '--logLevel',
      'silent'
    ]
    const server = new DevServer(copy, [...vite, '--', '--json'])
    const ready = await server.line(/^\{"type":"ready"/)
    const page = await openPage((JSON.parse(ready) as { page: string }).page)
    await provider(page, 'tools').waitFor()
    copy.write('playground/kept.ts', 'export const history: unknown[] = []')
    copy.edit(
      'playground/providers/tools.ts',
      source =>
        `import { history } from '../kept.ts'\n${source.replace("super(ctx, 'tools')", "super(ctx, 'tools')\n    history.push(this)")}`
    )
    await generation(page, 'tools').getByText('2', { exact: true }).waitFor()
    copy.edit('playground/providers/tools.ts', source => source.replace('history.push(this)', 'void history'))
    await page.getByRole('button', { name: 'Why is tools 2 retained?' }).click()
    await page.locator('.banner.task').waitFor()
    const why = page.locator('.why')
    await why.waitFor({ timeout: 60_000 })
    await expectText(why, /array "history".*kept\.ts/s)
  }, 90_000)

  test('shows a drain while it grows and what it waits for, and abandons it when it is told to', async () => {
    const { app, page } = await openHarness({ deadline: Infinity, warnAfter: 100 })
    void app.service('agents')['work']('ada', gate('held').promise)
    onTestFinished(() => gate('held').resolve())
    await expectText(page.locator('#boundaries'), /1/)
    const reloaded = app.edit('agents.ts', bump)
    const drain = page.getByRole('progressbar', { name: 'The drain' })
    await drain.waitFor()
    await expectText(page.locator('.now'), /Reloading agents 1.*waits for 1 open boundary.*ada/s)
    const inside = page.locator('.growing-inside')
    const width = async () => (await inside.boundingBox())!.width
    const before = await width()
    await page.waitForFunction(
      least => document.querySelector('.growing-inside').getBoundingClientRect().width > least,
      before
    )
    await page.getByRole('button', { name: 'Abandon the drain' }).click()
    expect(await reloaded).toMatchObject({ outcome: 'reloaded', providers: [{ abandoned: true, to: 2 }] })
    await expectText(page.locator('.odd'), /agents 1/)
    await page.locator('.verdict.pending').waitFor()
    gate('held').resolve()
    await page.locator('.verdict.collected').waitFor()
  })

  test('says nothing was there to abandon when the drain has just ended', async () => {
    const { app } = await openHarness()
    expect(app.harness.abandon()).toBeUndefined()
  })

  test('replaces a provider on a click although nothing has changed', async () => {
    const { app, page } = await openHarness()
    await page.getByRole('button', { name: 'Reload tools' }).click()
    expect(await app.next('reload')).toMatchObject({
      outcome: 'reloaded',
      providers: [{ name: 'tools', from: 1, to: 2 }]
    })
    await generation(page, 'tools').getByText('2', { exact: true }).waitFor()
  })

  test('shows what agents and errors say as text, whatever they say', async () => {
    const { app, page } = await openHarness()
    const evil = '<img src=x onerror="window.harmed = true"><script>window.harmed = true</script>'
    void app.service('agents')['work'](evil, gate('held').promise)
    onTestFinished(() => gate('held').resolve())
    await page.locator('.boundary-label', { hasText: evil }).waitFor()
    await app.edit('agents.ts', source => `${source}\nthrow new Error(${JSON.stringify(evil)})`)
    await page.locator('.error-message', { hasText: evil }).waitFor()
    expect(await page.evaluate(() => 'harmed' in window)).toBe(false)
    expect(await page.locator('main img, main script').count()).toBe(0)
  })

  test('reaches every action by keyboard alone, with a focus that is seen', async () => {
    const { app, page } = await openHarness({ deadline: Infinity })
    void app.service('agents')['work']('ada', gate('held').promise)
    onTestFinished(() => gate('held').resolve())
    const reloaded = app.edit('agents.ts', bump)
    const abandon = page.getByRole('button', { name: 'Abandon the drain' })
    await abandon.waitFor()
    await page.locator('.boundary-place').first().waitFor()
    const reached = await tabThrough(page)
    const actions = await page.locator('button:not([disabled])').evaluateAll(all => all.map(element => named(element)))
    expect(actions.length).toBeGreaterThan(6)
    expect(actions.filter(name => !reached.some(one => one.name === name))).toEqual([])
    expect(reached.filter(({ outline }) => !outline).map(({ name }) => name)).toEqual([])
    await abandon.focus()
    await page.keyboard.press('Enter')
    expect(await reloaded).toMatchObject({ providers: [{ abandoned: true }] })
  })

  test('finds the harness again after the server has restarted', async () => {
    const { app, page } = await openHarness()
    await app.edit('agents.ts', bump)
    await generation(page, 'agents').getByText('2', { exact: true }).waitFor()
    const loaded = page.waitForEvent('load')
    await app.server.restart()
    await loaded
    await page.locator('.connection.live').waitFor()
    // What ran before is history of another server: the new one starts with its own.
    await provider(page, 'agents').locator('.dot.active').waitFor()
    await page.getByText('Nothing was reloaded since').waitFor()
    await page.getByRole('button', { name: 'Reload tools' }).click()
    await reloads(page).first().waitFor()
    expect(await reloads(page).count()).toBe(1)
  })

  test('says that the server has gone, keeps what it knew, and offers nothing to do', async () => {
    const { app, page } = await openHarness()
    await app.edit('agents.ts', bump)
    await generation(page, 'agents').getByText('2', { exact: true }).waitFor()
    await app.close()
    await page.locator('.connection.lost').waitFor()
    await page.getByText('The dev server has gone').waitFor()
    expect(await generation(page, 'agents').textContent()).toBe('2')
    expect(await page.getByRole('button', { name: 'Audit now' }).isDisabled()).toBe(true)
    expect(await page.locator('main').evaluate(main => main.inert)).toBe(true)
  })

  test('says that the harness could not boot, and shows it when the next save mends it', async () => {
    const { app, page } = await openHarness()
    app.write('harness.ts', files['harness.ts'].replace('ctx.plugin(Agents)', 'ctx.plugin(Agents'))
    await app.next('reload')
    await app.server.restart()
    await page.getByRole('heading', { name: 'The harness does not run' }).waitFor()
    await page.locator('.boot .frame').waitFor()
    app.write('harness.ts', files['harness.ts'])
    await provider(page, 'agents').waitFor()
    expect(await page.locator('.boot').count()).toBe(0)
  })

  test('stays responsive with 5,000 open boundaries and 500 reloads', async () => {
    const { app, page } = await openHarness({ audit: false })
    const { harness } = app
    const tools = `${app.root}/tools.ts`
    const done = gate('held')
    onTestFinished(() => done.resolve())
    for (let i = 0; i < 5000; i++) void app.service('agents')['work'](`agent ${i}`, done.promise)
    await expectText(page.locator('#boundaries'), /5,000/)
    await page.getByText('the oldest 200 of 5,000').waitFor()
    await page.evaluate(() => {
      const tasks: number[] = []
      Object.assign(window, { tasks, since: Date.now() })
      new PerformanceObserver(list => tasks.push(...list.getEntries().map(({ duration }) => duration))).observe({
        type: 'longtask' as never
      })
    })
    for (let i = 0; i < 500; i++) {
      const reloaded = app.next('reload')
      harness.invalidate([tools])
      await reloaded
    }
    await generation(page, 'tools').getByText('501', { exact: true }).waitFor()
    // A click is answered although all of it is shown.
    await page.getByRole('button', { name: /^Show \d+ earlier/ }).click()
    await reloads(page).nth(59).waitFor()
    const { tasks, since } = await page.evaluate<{ tasks: number[]; since: number }>(() => {
      const { tasks, since } = window
      return { tasks, since }
    })
    const blocked = tasks.reduce((sum, ms) => sum + ms - 50, 0)
    expect(blocked).toBeLessThan((Date.now() - since) * 0.25)
    expect(tasks.filter(ms => ms > 500)).toEqual([])
    expect(await page.locator('.boundaries li').count()).toBeLessThanOrEqual(200)
  }, 120_000)

  test.each([
    [1280, 'light'],
    [1280, 'dark'],
    [380, 'light'],
    [380, 'dark']
  ] as const)('fits into %i pixels, %s, with text that can be read', async (width, colorScheme) => {
    const { app, page } = await openHarness({}, {}, { viewport: { width, height: 900 }, colorScheme })
    void app.service('agents')['work']('an agent with a rather long name', gate('held').promise)
    onTestFinished(() => gate('held').resolve())
    await app.edit('tools.ts', bump)
    await app.edit('tools.ts', source => `${source}\nexport const broken = (`)
    await reloads(page).first().locator('.frame').waitFor()
    await page.locator('.boundary-label').waitFor()
    expect(await page.evaluate(() => document.documentElement.scrollWidth)).toBeLessThanOrEqual(width)
    expect(await page.evaluate(lowContrasts)).toEqual([])
  })

  test('tells several pages the same, and forgets those that are closed', async () => {
    const { app, page } = await openHarness()
    const other = await openPage(pageOf(app))
    await app.edit('agents.ts', bump)
    await Promise.all([page, other].map(one => generation(one, 'agents').getByText('2', { exact: true }).waitFor()))
    await other.close()
    await app.edit('agents.ts', bump)
    await generation(page, 'agents').getByText('3', { exact: true }).waitFor()
    expect(seq).toEqual([])
  })
})

/** Waits for an element whose text is like this. */
async function expectText(locator: ReturnType<Page['locator']>, text: RegExp): Promise<void> {
  await promptly(locator.filter({ hasText: text }).first().waitFor(), `text ${String(text)}`, 15_000)
}

/** Presses Tab until the focus comes back to where it began; says what it met and whether the focus was seen. */
async function tabThrough(page: Page): Promise<{ name: string; outline: boolean }[]> {
  await page.evaluate(() => {
    Object.assign(window, {
      named: (element: any) => element.getAttribute('aria-label') ?? element.textContent
    })
  })
  const found: { name: string; outline: boolean }[] = []
  for (let i = 0; i < 200; i++) {
    await page.keyboard.press('Tab')
    const focused = await page.evaluate(() => {
      const element = document.activeElement
      if (element === document.body) return undefined
      const { outlineStyle, outlineWidth } = getComputedStyle(element)
      return { name: named(element), outline: outlineStyle !== 'none' && outlineWidth !== '0px' }
    })
    if (!focused) return found
    found.push(focused)
  }
  return found
}

/** Texts whose contrast with what is behind them is less than WCAG's AA asks for; runs in the page. */
function lowContrasts(): string[] {
  const canvas = document.createElement('canvas').getContext('2d', { willReadFrequently: true })
  const channels = (color: string): [number, number, number, number] => {
    canvas.clearRect(0, 0, 1, 1)
    canvas.fillStyle = color
    canvas.fillRect(0, 0, 1, 1)
    const [r, g, b, a] = canvas.getImageData(0, 0, 1, 1).data
    return [r, g, b, a / 255]
  }
  const luminance = (rgb: number[]) => {
    const [r, g, b] = rgb.map(value =>
      value / 255 <= 0.03928 ? value / 255 / 12.92 : ((value / 255 + 0.055) / 1.055) ** 2.4
    )
    return 0.2126 * r! + 0.7152 * g! + 0.0722 * b!
  }
  const behind = (element: any): number[] => {
    for (let at = element; at; at = at.parentElement) {
      const [r, g, b, a] = channels(getComputedStyle(at).backgroundColor)
      if (a > 0.95) return [r, g, b]
    }
    return [255, 255, 255]
  }
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT)
  const low: string[] = []
  while (walker.nextNode()) {
    const { parentElement: element, textContent } = walker.currentNode
    if (!element || !textContent?.trim() || element.closest('.sr, .generation, noscript, script')) continue
    const [ink, ground] = [luminance(channels(getComputedStyle(element).color)), luminance(behind(element))]
    const contrast = (Math.max(ink, ground) + 0.05) / (Math.min(ink, ground) + 0.05)
    if (contrast < 4.5) low.push(`${textContent} ${contrast.toFixed(2)}`)
  }
  return low
}
