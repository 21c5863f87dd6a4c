import { once } from 'node:events'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { existsSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, onTestFinished, test } from 'vitest'
import { noBrowser, openPage } from '../fixtures/browser.ts'
import { promptly } from '../promptly.ts'
import { Playground } from './page-fixture.ts'

describe.skipIf(noBrowser)(`the playground's page ${noBrowser}`, { timeout: 90_000 }, () => {
  test('shows a reload where it happened in an answer that streams, which comes once and complete', async () => {
    const playground = await new Playground().open()
    const { page } = playground
    await page.evaluate(() => Object.assign(globalThis, { sameDocument: true }))
    await playground.ask('ada', 'Tell me, slow and in order, what owls do')
    await playground.entries('ada', 'saying').filter({ hasText: 'About' }).waitFor()
    playground.copy.edit('playground/providers/agents.ts', source => `${source}\nexport const edition = 2\n`)

    const marker = playground.entries('ada', 'reload').filter({ hasText: 'agents 1 → 2' })
    await marker.waitFor()
    await marker.filter({ hasText: 'collected agents 1' }).waitFor()
    const text = await playground.answer('ada', 'About "Tell me')
    await playground.entries('ada', 'saying').waitFor({ state: 'detached' })
    const answers = playground.session('ada').filter(({ type }) => type === 'answer')
    expect(answers.map(({ data }) => data)).toEqual([expect.objectContaining({ text })])
    expect(await playground.entries('ada', 'answer').count()).toBe(1)
    const generation = page.locator('[data-source="providers/agents.ts"] .generation')
    expect(await generation.innerText()).toBe('2')
    // In every conversation; and a save of a provider is none of the browser's business.
    expect(await playground.entries('bo', 'reload').filter({ hasText: 'agents 1 → 2' }).count()).toBe(1)
    expect(await page.evaluate(() => 'sameDocument' in globalThis)).toBe(true)
  })

  test('shows what a call waits for, what it gives, and a child within the call that asked for it', async () => {
    const playground = await new Playground().open()
    await playground.ask('ada', 'spawn: use wait 1500 then add 2 3')
    const spawn = playground.agent('ada').locator('.call', { hasText: 'spawn' }).first()
    await spawn.locator('.child').getByText('wait', { exact: true }).waitFor()
    expect(await spawn.getAttribute('data-state')).toBe('running')
    expect(await playground.answer('ada', 'About "spawn')).toContain('2 + 3 = 5')
    expect(await spawn.getAttribute('data-state')).toBe('done')
    // It has ended: who opens the page now reads it when he asks for it.
    await playground.page.reload()
    await spawn.locator('summary').click()
    await spawn.locator('.child').getByText('2 + 3 = 5', { exact: true }).waitFor()
  })

  test('shows markup of a model and of a visitor as text, and runs nothing of it', async () => {
    const markup = `<img src="x" onerror="hacked = true"><script>hacked = true</script>`
    const playground = await new Playground(copy =>
      copy.edit('playground/providers/llm.ts', source =>
        source.replace('return `About "${prompt}": ', `return \`${markup} about "\${prompt}": `)
      )
    ).open()
    await playground.ask('ada', '<b onmouseover="hacked = true">bold</b>')
    expect(await playground.answer('ada', markup)).toContain(
      `${markup} about "<b onmouseover="hacked = true">bold</b>"`
    )
    expect(await playground.agent('ada').locator('img, script, b').count()).toBe(0)
    expect(await playground.page.evaluate(() => 'hacked' in globalThis)).toBe(false)
  })

  test('goes on when the server has restarted, with what was being written', async () => {
    const playground = await new Playground().open()
    await playground.page.getByLabel('Prompt for bo').fill('use add 20 22')
    await playground.page.evaluate(() => Object.assign(globalThis, { sameDocument: true }))
    await playground.server.restart()
    await playground.page.waitForFunction(() => !('sameDocument' in globalThis))
    await playground.page.locator('.link.is-open').waitFor()
    await playground.page.getByLabel('Prompt for bo').press('Enter')
    expect(await playground.answer('bo', 'About')).toContain('20 + 22 = 42')
  })

  test('goes on when the provider that serves it is replaced, which listens while a page is open and no longer', async () => {
    const playground = await new Playground().open()
    playground.copy.edit('playground/extras/page.ts', source =>
      source.replace('PATIENCE = 15_000', 'PATIENCE = 14_000')
    )
    const marker = playground.entries('ada', 'reload').filter({ hasText: 'Page 1 → 2' })
    await marker.filter({ hasText: 'collected Page 1' }).waitFor()
    await playground.ask('ada', 'use add 20 22')
    expect(await playground.answer('ada', 'About')).toContain('20 + 22 = 42')
    expect(playground.listeners('agent/delta')).toBe(1)
    await playground.page.close()
    await promptly(playground.untilNobodyListens('agent/delta'), 'the end of the page')
  })

  test('keeps a prompt for an agent that is away until it is back', async () => {
    const delay = `yield () => new Promise<void>(resolve => setTimeout(resolve, 2000))`
    const playground = await new Playground(copy =>
      copy.edit('playground/providers/agents.ts', source => source.replace('yield* closeOnUnload', `${delay}\n$&`))
    ).open()
    playground.copy.edit('playground/providers/agents.ts', source => `${source}\nexport const edition = 2\n`)
    await playground.agent('ada').locator('.state.is-away').waitFor()
    await playground.ask('ada', 'use add 20 22')
    expect(await playground.answer('ada', 'About')).toContain('20 + 22 = 42')
    const kinds = await playground.kinds('ada')
    expect(kinds.filter(kind => kind !== 'reload')).toEqual(['prompt', 'step', 'answer'])
  })

  test('says that there is no harness yet, and that the server is gone', async () => {
    const playground = new Playground(copy =>
      copy.edit('playground/harness.ts', source => `${source}\nthrow new Error('no')\n`)
    )
    const { page } = await playground.serve()
    await page.getByText('the harness is not yet').waitFor()
    // As soon as it is mended, the page that is open shows it.
    playground.copy.edit('playground/harness.ts', source => source.replace(`throw new Error('no')`, ''))
    await playground.agent('ada').waitFor()
    await playground.server.close()
    await page.getByText('reconnecting…').waitFor()
    expect(await playground.agent('ada').count()).toBe(1)
  })

  test('fits into 380 pixels, one conversation at a time, and is used with the keyboard', async () => {
    const playground = await new Playground().open({ viewport: { width: 380, height: 700 } })
    const { page } = playground
    const overflow = () => page.evaluate<number>('document.documentElement.scrollWidth - innerWidth')
    const isFocused = () => page.evaluate<boolean>(`document.activeElement.ariaLabel === 'Prompt for ada'`)
    for (let i = 0; i < 20 && !(await isFocused()); i++) await page.keyboard.press('Tab')
    await page.keyboard.type(`use note ${'averyveryverylongwordwithoutanyspace'.repeat(4)}`)
    await page.keyboard.press('Enter')
    await playground.answer('ada', 'noted')
    expect(await overflow()).toBeLessThanOrEqual(0)
    expect(await playground.agent('bo').isVisible()).toBe(false)
    await page.getByRole('button', { name: 'edits' }).click()
    await playground.make('throw', 'rolled-back')
    expect(await playground.agent('ada').isVisible()).toBe(false)
    expect(await overflow()).toBeLessThanOrEqual(0)
    const panel = page.getByRole('complementary')
    expect(await panel.evaluate(element => element.scrollWidth - element.clientWidth)).toBeLessThanOrEqual(0)
  })

  test('takes nothing from a page of another site, nor without the right token', async () => {
    const playground = await new Playground().open()
    const other = createServer((_, response) => response.end('<!doctype html>')).listen(0, '127.0.0.1')
    onTestFinished(() => void other.close())
    await once(other, 'listening')
    const site = await openPage(`http://127.0.0.1:${(other.address() as AddressInfo).port}/`)
    const { host, href } = new URL(playground.url)
    const opened = await site.evaluate(
      async ([host, href]) => {
        const prompt = { id: 1, name: 'prompt', agent: 'ada', text: 'from elsewhere' }
        const data = JSON.stringify({ type: 'custom', event: 'playground:request', data: prompt })
        const attempt = (url: string) =>
          new Promise<boolean>(resolve => {
            const socket = new WebSocket(url, 'vite-hmr')
            socket.addEventListener('open', () => (socket.send(data), resolve(true)))
            socket.addEventListener('error', () => resolve(false))
          })
        await fetch(href!, { method: 'POST', mode: 'no-cors', body: data }).catch(() => {})
        return Promise.all([attempt(`ws://${host}/`), attempt(`ws://${host}/?token=wrong`)])
      },
      [host, href]
    )
    expect(opened).toEqual([false, false])
    await playground.ask('ada', 'from here')
    await playground.answer('ada', 'from here')
    const prompts = playground.session('ada').filter(({ type }) => type === 'prompt')
    expect(prompts.map(({ data }) => data)).toEqual([expect.objectContaining({ text: 'from here' })])
  })
})

describe.skipIf(noBrowser)(`a ready-made edit ${noBrowser}`, { timeout: 90_000 }, () => {
  test('changes a constant, and back, without touching a source file', async () => {
    const playground = await new Playground().open()
    const files = playground.files()
    await playground.make('constant', 'reloaded basicTools 1 → 2')
    await playground.edit('constant').getByRole('button', { name: 'Ask ada' }).click()
    expect(await playground.answer('ada', 'whole face')).toContain('owls hear with their whole face')
    expect(playground.files()).toEqual(files)
    await playground.edit('constant').getByRole('button', { name: 'Undo' }).click()
    await playground.edit('constant').getByText('basicTools 2 → 3').waitFor()
    await playground.edit('constant').getByRole('button', { name: 'Ask ada' }).click()
    expect(await playground.answer('ada', 'cannot move')).toContain('owls cannot move their eyes')
    expect(playground.files()).toEqual(files)
    expect(existsSync(join(playground.copy.root, 'playground/.scratch/providers/basic-tools.ts'))).toBe(false)
  })

  test.each([
    ['break', 'kept agents 1', 'this.ctx = ctx oops'],
    ['throw', 'rolled-back agents 1', `throw new Error('no registry today')`]
  ])('"%s" is kept out, shows the lines that failed, and is undone', async (id, outcome, line) => {
    const playground = await new Playground().open()
    const files = playground.files()
    await playground.make(id, outcome)
    const shown = await playground.edit(id).locator('.frame').innerText()
    expect(shown.split('\n').find(text => text.startsWith('>'))).toContain(line)
    await playground.ask('ada', 'use add 1 2')
    expect(await playground.answer('ada', 'About')).toContain('1 + 2 = 3')
    await playground.page.locator('[data-source="providers/agents.ts"] .name').click()
    const failed = playground.page.getByRole('dialog').locator('.is-failed')
    expect(await failed.innerText()).toContain(line)
    await playground.page.keyboard.press('Escape')
    await playground.page.getByRole('button', { name: 'Undo all' }).click()
    await playground.page.locator('.copies').waitFor({ state: 'detached' })
    expect(playground.files()).toEqual(files)
  })

  test('keeps its own result when the file is tried again with the save of another', async () => {
    const playground = await new Playground().open()
    await playground.make('break', 'kept agents 1')
    const result = await playground.edit('break').locator('.came-of').innerText()
    await playground.make('constant', 'reloaded basicTools 1 → 2')
    expect(await playground.edit('break').locator('.came-of').innerText()).toBe(result)
    expect(result).not.toContain('basicTools')
    expect(await playground.edit('throw').locator('.came-of').count()).toBe(0)
  })

  test('makes a tool slow', async () => {
    const playground = await new Playground().open()
    await playground.make('slow', 'reloaded basicTools 1 → 2')
    await playground.ask('bo', 'use lookup tides')
    await playground.agent('bo').locator('.call[data-state="running"]').waitFor()
    expect(await playground.answer('bo', 'About')).toContain('tides slow the day')
    const time = (wanted: string) => playground.session('bo').find(({ type }) => type === wanted)!.time
    expect(time('result') - time('call')).toBeGreaterThanOrEqual(2900)
  })

  test('plants a leak, which the audit names when its generation is replaced', async () => {
    const playground = await new Playground().open()
    const files = playground.files()
    await playground.make('leak', 'reloaded agents 1 → 2')
    await playground.edit('leak').getByRole('button', { name: 'Undo' }).click()
    const found = playground.edit('leak').locator('.audit', { hasText: 'retained agents 2' })
    await found.waitFor()
    expect(await found.innerText()).toMatch(/setInterval.*agents\.ts:\d+/i)
    expect(playground.files()).toEqual(files)
  })

  test('lets an agent edit the tools that it runs on, in a copy', async () => {
    const playground = await new Playground().open()
    const files = playground.files()
    await playground.edit('self-edit').getByRole('button', { name: 'Ask ada' }).click()
    await playground.entries('ada', 'notice').filter({ hasText: 'reloaded: basicTools 2' }).waitFor()
    const text = await playground.answer('ada', 'About')
    expect(text).toContain('rivers carry more water below the ground than above it')
    const row = playground.page.locator('[data-source="providers/basic-tools.ts"]')
    await row.getByText('copy').waitFor()
    expect(playground.files()).toEqual(files)
  })

  test('gives way to a save of the file itself', async () => {
    const playground = await new Playground().open()
    await playground.make('constant', 'reloaded basicTools 1 → 2')
    playground.copy.edit('playground/providers/basic-tools.ts', source =>
      source.replace('owls cannot move their eyes', 'owls have three eyelids')
    )
    await playground.entries('ada', 'reload').filter({ hasText: 'basicTools 2 → 3' }).waitFor()
    await playground.ask('ada', 'What do you know about owls?')
    expect(await playground.answer('ada', 'About')).toContain('owls have three eyelids')
    await playground.page.locator('.copies').waitFor({ state: 'detached' })
  })
})
