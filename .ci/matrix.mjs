// `npm run test:matrix [legs…]`: the whole suite on every Node line that is supported, and what depends on the implementation
// of AsyncLocalStorage also on the other one. The binaries come from npm and go into a temporary folder.
import { spawn } from 'node:child_process'
import { existsSync, mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { delimiter, dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'

const root = fileURLToPath(new URL('..', import.meta.url))
const STORAGE_TESTS = ['test/ledger', 'test/scope', 'test/audit', 'test/retainers', 'test/why']

/** By name: the Node line, a flag, and the test files that are run; all without. */
const LEGS = {
  20: { line: '20' },
  22: { line: '22' },
  24: { line: '24' },
  26: { line: '26' },
  '22-frames': { line: '22', flag: '--experimental-async-context-frame', files: STORAGE_TESTS },
  '24-hooks': { line: '24', flag: '--no-async-context-frame', files: STORAGE_TESTS }
}

const names = process.argv.slice(2).length > 0 ? process.argv.slice(2) : Object.keys(LEGS)
const unknown = names.filter(name => !(name in LEGS))
if (unknown.length > 0) {
  console.error(`unknown leg "${unknown[0]}". Legs are ${Object.keys(LEGS).join(', ')}`)
  process.exit(1)
}

/** Runs a command; resolves with whether it succeeded. */
function run(command, args, env = process.env) {
  return new Promise(resolve => {
    const child = spawn(command, args, { cwd: root, env, stdio: 'inherit' })
    child.on('error', error => {
      console.error(String(error))
      resolve(false)
    })
    child.on('exit', code => resolve(code === 0))
  })
}

// npm itself, through the node that runs this: a `.cmd` file could not be spawned without a shell.
const npm = process.env.npm_execpath
const binaries = mkdtempSync(join(tmpdir(), 'harness-hmr-node-'))

/** The path of a Node of that line; the one that runs this where it will do. */
async function nodeOf(line) {
  if (process.versions.node.startsWith(`${line}.`)) return process.execPath
  const platform = process.platform === 'win32' ? 'win' : process.platform
  const name = `node-${platform}-${process.arch}`
  const prefix = join(binaries, line)
  const executable = join(prefix, 'node_modules', name, 'bin', process.platform === 'win32' ? 'node.exe' : 'node')
  const install = ['install', '--no-save', '--no-audit', '--no-fund', '--prefix', prefix, `${name}@${line}`]
  if (!existsSync(executable) && !(await run(process.execPath, [npm, ...install])))
    throw new Error(`cannot install ${name}@${line}`)
  return executable
}

/** Runs one leg; its JSON report goes where MATRIX_REPORTS says. */
async function test(name) {
  const { line, flag, files = [] } = LEGS[name]
  const node = await nodeOf(line)
  const reports = process.env.MATRIX_REPORTS
  const json = reports
    ? ['--reporter=default', '--reporter=json', `--outputFile.json=${join(reports, `${name}.json`)}`]
    : []
  console.log(`\n== Node ${line} ${flag ?? ''}`)
  const env = { ...process.env, PATH: `${dirname(node)}${delimiter}${process.env.PATH}` }
  if (flag) env.NODE_OPTIONS = `${env.NODE_OPTIONS ?? ''} ${flag}`.trim()
  return run(node, [join(root, 'node_modules', 'vitest', 'vitest.mjs'), 'run', ...files, ...json], env)
}

const failed = []
try {
  if (!npm) throw new Error('run it as `npm run test:matrix`')
  for (const name of names) if (!(await test(name))) failed.push(name)
} finally {
  rmSync(binaries, { recursive: true, force: true })
}
console.log(failed.length > 0 ? `\nfailed on: ${failed.join(', ')}` : `\npassed on: ${names.join(', ')}`)
process.exitCode = failed.length > 0 ? 1 : 0
