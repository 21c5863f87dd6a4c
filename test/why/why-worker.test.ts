import { execFile } from 'node:child_process'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import { expect, test } from 'vitest'
import { createFolder } from '../fixtures/app.ts'

const repository = fileURLToPath(new URL('../..', import.meta.url))

/** What the process does with `why`. */
const program = `
  class Part {}
  const kept = []
  const retired = [{ name: 'kept', ref: keep() }, { name: 'gone', ref: new WeakRef(new Part()) }]
  function keep() {
    kept.push({ part: new Part() })
    return new WeakRef(kept[0].part)
  }
  const options = { root: import.meta.dirname ?? '.', running: [] }
  const stages = []
  // The search does not keep the process, so something else has to.
  const busy = setInterval(() => {}, 1000)
  const one = await why(retired, { ...options, onProgress: (stage, fraction) => stages.push([stage, fraction]) })
  console.log(JSON.stringify({ one, stages }))
`

/** And then, where there is time for it. */
const more = `
  const two = await Promise.all([why(retired, options), why(retired, options)])
  const aborted = []
  for (const when of ['before', 'snapshot', 'parse', 'search']) {
    const controller = new AbortController()
    if (when === 'before') controller.abort(when)
    const onProgress = stage => { if (stage === when) controller.abort(when) }
    aborted.push(await why(retired, { ...options, onProgress, signal: controller.signal }).then(() => 'found', reason => reason))
  }
  const workers = process.getActiveResourcesInfo().filter(kind => /Worker|MessagePort/.test(kind))
  console.log(JSON.stringify({ two, aborted, workers }))
  // The process ends although this goes on.
  void why(retired, options).then(() => console.log('found'))
`

/** What the program prints, line by line. */
async function run(root: string): Promise<Record<string, any>[]> {
  const env = { ...process.env, NODE_OPTIONS: undefined, VITEST: undefined }
  const { stdout } = await promisify(execFile)(process.execPath, ['main.mjs'], { cwd: root, env, timeout: 30_000 })
  return stdout
    .trim()
    .split('\n')
    .map(line => JSON.parse(line) as Record<string, any>)
}

const found = [{ object: 'kept', retainer: { what: 'module-level array "kept"' } }]

function expectAnswer({ one, stages }: Record<string, any>): void {
  expect(one).toMatchObject({ found })
  expect(one.found[0].retainer.location.file).toMatch(/main\.mjs$/)
  expect(one.ms.blocked).toBeGreaterThan(0)
  expect(one.ms.total).toBeGreaterThan(one.ms.blocked)
  expect([...new Set(stages.map(([stage]: [string]) => stage))]).toEqual(['snapshot', 'parse', 'search'])
  expect(stages.every(([, fraction]: [string, number]) => fraction >= 0 && fraction <= 1)).toBe(true)
}

test('the published build searches, one search after the other, and stops when it is aborted', async () => {
  const source = `import { why } from './dist/why/why.js'\n${program}\n${more}\nclearInterval(busy)`
  const root = createFolder({ 'main.mjs': source })
  const tsc = join(repository, 'node_modules/typescript/bin/tsc')
  const flags = ['--declaration', 'false', '--sourceMap', 'false', '--inlineSources', 'false']
  const build = [tsc, '-p', join(repository, 'tsconfig.build.json'), '--outDir', join(root, 'dist'), ...flags]
  await promisify(execFile)(process.execPath, build)
  const [first, second, ...rest] = await run(root)
  expectAnswer(first!)
  expect(second).toMatchObject({
    two: [{ found }, { found }],
    aborted: ['before', 'snapshot', 'parse', 'search'],
    workers: []
  })
  expect(rest).toEqual([])
}, 60_000)

test('a Vite config that imports the TypeScript sources searches the same way', async () => {
  const root = createFolder({
    'vite.config.ts': `
      import { why } from ${JSON.stringify(join(repository, 'plugin/why/why.ts'))}
      export default { plugins: [{ name: 'why', api: { why } }] }`,
    'main.mjs': `
      import { loadConfigFromFile } from 'vite'
      const { config } = await loadConfigFromFile({ command: 'serve', mode: 'development' }, 'vite.config.ts')
      const { why } = config.plugins[0].api
      ${program}
      clearInterval(busy)`
  })
  const [answer] = await run(root)
  expectAnswer(answer!)
}, 60_000)
