// `npm run test:matrix [legs…]`: the whole suite on every Node line that is supported, and what depends on the implementation
// of AsyncLocalStorage also on the other one.
import { delimiter, dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { LINES, nodeOf, run } from './node-lines.mjs'

const vitest = fileURLToPath(new URL('../node_modules/vitest/vitest.mjs', import.meta.url))
/** Where the implementation of AsyncLocalStorage matters. */
const STORAGE_TESTS = ['test/audit/', 'test/scope/', 'test/leaks/left-running', 'test/leaks/leaks', 'test/why/']
/** Long, and of a browser, a package or a terminal, not of a Node line: these run on the oldest line and on 24. */
const FACES = ['test/page/**', 'test/cli/**', 'test/soak/soak.test.ts', 'test/playground/page.test.ts']

/** By name: the Node line, a flag, and the test files that are run, or are not; all without. */
const LEGS = {
  ...Object.fromEntries(LINES.map(line => [line, { line }])),
  22: { line: '22', exclude: FACES },
  26: { line: '26', exclude: FACES },
  '22-frames': { line: '22', flag: '--experimental-async-context-frame', files: STORAGE_TESTS },
  '24-hooks': { line: '24', flag: '--no-async-context-frame', files: STORAGE_TESTS }
}

/** Runs one leg; its JSON report goes where MATRIX_REPORTS says. Resolves with whether it passed. */
async function test(name) {
  const { line, flag, files = [], exclude = [] } = LEGS[name]
  const node = await nodeOf(line)
  const reports = process.env.MATRIX_REPORTS
  const json = reports
    ? ['--reporter=default', '--reporter=json', `--outputFile.json=${join(reports, `${name}.json`)}`]
    : []
  console.log(`\n== Node ${line} ${flag ?? ''}  (${Math.round(process.uptime())} s)`)
  const env = { ...process.env, PATH: `${dirname(node)}${delimiter}${process.env.PATH}` }
  if (flag) env.NODE_OPTIONS = `${env.NODE_OPTIONS ?? ''} ${flag}`.trim()
  const { code } = await run(
    node,
    [vitest, 'run', ...files, ...exclude.map(pattern => `--exclude=${pattern}`), ...json],
    { env }
  )
  return code === 0
}

const names = process.argv.length > 2 ? process.argv.slice(2) : Object.keys(LEGS)
const unknown = names.find(name => !(name in LEGS))
if (unknown !== undefined) throw new Error(`unknown leg "${unknown}". Legs are ${Object.keys(LEGS).join(', ')}`)
const failed = []
for (const name of names) if (!(await test(name))) failed.push(name)
console.log(failed.length > 0 ? `\nfailed on: ${failed.join(', ')}` : `\npassed on: ${names.join(', ')}`)
process.exitCode = failed.length > 0 ? 1 : 0
