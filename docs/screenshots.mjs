// `npm run screenshots`: runs the playground in a temporary copy, edits it, and takes the pictures of both pages, light and
// dark, that the docs show. Takes a Chromium; where it is installed elsewhere, the variable CHROMIUM names it.
import { spawn } from 'node:child_process'
import { cpSync, existsSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { fileURLToPath } from 'node:url'
import { chromium } from 'playwright-core'

const repository = fileURLToPath(new URL('..', import.meta.url))
const here = fileURLToPath(new URL('.', import.meta.url))
const CHROMIUM = [
  process.env.CHROMIUM,
  '/usr/bin/chromium',
  '/usr/bin/chromium-browser',
  '/usr/bin/google-chrome',
  '/Applications/Google Chrome.app/Contents/MacOS/Google Chrome',
  'C:\\Program Files\\Google\\Chrome\\Application\\chrome.exe'
].find(path => path && existsSync(path))

const root = mkdtempSync(join(tmpdir(), 'harness-hmr-screenshots-'))
for (const name of ['package.json', 'tsconfig.json', 'vite.config.ts', 'plugin', 'playground']) {
  cpSync(join(repository, name), join(root, name), {
    recursive: true,
    filter: path => !/\.(sessions|scratch)/.test(path)
  })
}
symlinkSync(join(repository, 'node_modules'), join(root, 'node_modules'), 'junction')

const vite = join(root, 'node_modules/vite/bin/vite.js')
const server = spawn(process.execPath, [vite, '--port', '0', '--logLevel', 'silent', '--', '--json'], {
  cwd: root,
  stdio: ['ignore', 'pipe', 'inherit']
})
const waiting = new Map()
createInterface({ input: server.stdout }).on('line', line => {
  if (!line.startsWith('{"type"')) return
  const told = JSON.parse(line)
  waiting.get(told.type)?.(told)
})

/** The next line of a type. */
const next = type => new Promise(resolve => waiting.set(type, resolve))

const pause = ms => new Promise(resolve => setTimeout(resolve, ms))

/** Saves a provider of the playground, and waits until that has ended somehow. */
async function edit(file, change) {
  const path = join(root, 'playground/providers', file)
  const before = readFileSync(path, 'utf8')
  const after = change(before)
  if (after === before) throw new Error(`edit of "${file}" changes nothing`)
  const reloaded = next('reload')
  writeFileSync(path, after)
  await reloaded
}

const saved = source => `${source}// saved\n`
const leak = source =>
  source.replace("super(ctx, 'tools')", "super(ctx, 'tools')\n    setInterval(() => this.name, 1000)")
const mended = source => source.replace('\n    setInterval(() => this.name, 1000)', '')

const { page: live } = await next('ready')
const playground = new URL('../', live).href
const browser = await chromium.launch({ executablePath: CHROMIUM, args: ['--no-sandbox', '--disable-gpu'] })
try {
  const open = async (url, colorScheme) => {
    const viewport = { width: 1280, height: 960 }
    const page = await browser.newPage({ viewport, colorScheme, deviceScaleFactor: 1.5 })
    await page.goto(url)
    return page
  }
  const shoot = (page, name, fullPage = false) => page.screenshot({ path: join(here, `${name}.png`), fullPage })
  const talks = [await open(playground, 'light'), await open(playground, 'dark')]
  const looks = [await open(live, 'light'), await open(live, 'dark')]
  await looks[0].locator('.connection.live').waitFor()
  // Time to talk, before and after a reload.
  await pause(5000)
  await edit('agents.ts', saved)
  await pause(5000)
  for (const [i, page] of talks.entries()) await shoot(page, `playground-${i === 0 ? 'light' : 'dark'}`)
  for (let i = 0; i < 3; i++) {
    await edit('prompt.ts', saved)
    await edit('agents.ts', saved)
  }
  await edit('tools.ts', leak)
  await edit('tools.ts', mended)
  await looks[0].locator('.verdict.retained').first().waitFor()
  await edit('llm.ts', source => `${source}export const broken = (\n`)
  await edit('llm.ts', source => source.replace('export const broken = (\n', '// mended\n'))
  await edit('agents.ts', saved)
  await edit('llm.ts', source => `${source}export const latency: number = )\n`)
  await looks[0].locator('.boundary-label').first().waitFor()
  await pause(1500)
  for (const [i, page] of looks.entries()) await shoot(page, `page-${i === 0 ? 'light' : 'dark'}`, true)
} finally {
  await browser.close()
  server.kill()
  await new Promise(resolve => server.once('exit', resolve))
  rmSync(root, { recursive: true, force: true, maxRetries: 5 })
}
