// Node binaries of other lines, from npm, in a temporary folder that is removed when the process ends.
import { spawn } from 'node:child_process'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { npmScript, temporaryFolder } from './npm.mjs'

/** The supported lines. */
export const LINES = ['20', '22', '24', '26']

const root = fileURLToPath(new URL('..', import.meta.url))
const installed = new Map()
let folder

/** Runs a command in the repository; resolves with its exit code and, when piped, what it printed. */
export function run(command, args, { env = process.env, pipe = false } = {}) {
  return new Promise((resolve, reject) => {
    const child = spawn(command, args, { cwd: root, env, stdio: ['ignore', pipe ? 'pipe' : 'inherit', 'inherit'] })
    let output = ''
    child.stdout?.on('data', chunk => (output += chunk))
    child.on('error', reject)
    child.on('close', code => resolve({ code, output }))
  })
}

/** The path of a Node of a line: the one that runs this where it will do, else one from npm. */
export function nodeOf(line) {
  if (process.versions.node.startsWith(`${line}.`)) return Promise.resolve(process.execPath)
  if (!installed.has(line)) installed.set(line, install(line))
  return installed.get(line)
}

async function install(line) {
  const npm = npmScript()
  folder ??= temporaryFolder('node')
  const isWindows = process.platform === 'win32'
  const name = `node-${isWindows ? 'win' : process.platform}-${process.arch}`
  const prefix = join(folder, line)
  const args = ['install', '--no-save', '--no-audit', '--no-fund', '--prefix', prefix, `${name}@${line}`]
  const { code } = await run(process.execPath, [npm, ...args])
  if (code !== 0) throw new Error(`cannot install ${name}@${line}`)
  return join(prefix, 'node_modules', name, 'bin', isWindows ? 'node.exe' : 'node')
}
