/** A real Chromium for the pages' tests; where none is installed they are skipped, and say so. */
import { existsSync } from 'node:fs'
import { type Browser, chromium, type Page } from 'playwright-core'
import { onTestFinished } from 'vitest'

const CANDIDATES = [
  '/usr/bin/chromium',
  '/usr/bin/chromium-browser',
  '/usr/bin/google-chrome',
  '/Applications/Google Chrome.app/Contents/MacOS/Google Chrome',
  'C:\\Program Files\\Google\\Chrome\\Application\\chrome.exe'
]

/** The browser that the tests use: `CHROMIUM` in the environment, else the first that is installed. */
export const executablePath = [process.env['CHROMIUM'], ...CANDIDATES].find(path => path && existsSync(path))

/** Why a test of a page is skipped; empty where it runs. */
export const noBrowser = executablePath ? '' : 'no Chromium found: install one, or name it in the variable CHROMIUM'

const ARGS = [
  '--no-sandbox',
  '--disable-gpu',
  '--disable-quic',
  '--no-first-run',
  '--disable-background-networking',
  '--disable-component-update',
  '--disable-sync'
]

let running: Promise<Browser> | undefined

/** The tests' browser, one per test file; vitest ends the worker, and the browser with it. */
export function browser(): Promise<Browser> {
  return (running ??= chromium.launch({ executablePath: executablePath!, args: ARGS }))
}

/** A page in a context of its own, closed at the end of the test. */
export async function openPage(url: string, options: Parameters<Browser['newContext']>[0] = {}): Promise<Page> {
  const context = await (await browser()).newContext(options)
  onTestFinished(() => context.close())
  const page = await context.newPage()
  page.setDefaultTimeout(15_000)
  await page.goto(url)
  return page
}
