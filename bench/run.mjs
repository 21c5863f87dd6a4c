// `npm run bench`: measures the scope on every Node line, and what a save costs under the plugin and its peers; writes
// docs/benchmarks.md. `npm run bench -- quick` takes a fifth of the time, and prints it instead.
import { spawnSync } from 'node:child_process'
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { build } from 'vite'
import { LINES, nodeOf } from '../.ci/node-lines.mjs'
import { contenders } from './contenders.mjs'
import { folder, prepare } from './folder.mjs'
import { measure } from './reload.mjs'
import { page } from './page.mjs'

const here = path => fileURLToPath(new URL(path, import.meta.url))
const quick = process.argv.includes('quick')
const FILLERS = [0, 200, 1000]
const EDITS = quick ? 6 : 30
/** Pairs of saves are measured with so many modules. */
const PAIRED = 200
const PAIRS = quick ? 4 : 20

/** Bundles a source of ours, with the scope in it, as one module that every Node line runs. */
async function bundle(source, name) {
  await build({
    configFile: false,
    logLevel: 'error',
    resolve: { alias: { 'harness-hmr/scope': here('../plugin/scope.ts') } },
    build: {
      ssr: here(source),
      outDir: folder,
      emptyOutDir: false,
      rollupOptions: {
        external: ['cordis'],
        output: { entryFileNames: name, paths: { cordis: '@deepseek-ai/cordis' } }
      }
    }
  })
  return join(folder, name)
}

/** Runs a script that prints JSON. */
function run(node, script, ...args) {
  const { status, stdout, stderr } = spawnSync(node, [here(script), ...args], { cwd: folder, encoding: 'utf8' })
  if (status !== 0) throw new Error(`${script} on ${node}: ${stderr}`)
  return JSON.parse(stdout)
}

prepare()
const [scope, agents] = [
  await bundle('../plugin/scope.ts', 'scope.mjs'),
  await bundle('../playground/providers/agents.ts', 'agents.mjs')
]
const lines = []
for (const line of LINES) {
  const node = await nodeOf(line)
  const version = spawnSync(node, ['--version'], { encoding: 'utf8' }).stdout.trim().slice(1)
  lines.push({ version, scope: run(node, 'scope.mjs', scope), registry: run(node, 'registry.mjs', agents) })
  console.log(JSON.stringify(lines.at(-1)))
}

const node = await nodeOf('24')
const reloads = []
for (const fillers of FILLERS) {
  for (const [name, contender] of Object.entries(contenders)) {
    const once = () => measure(node, name, contender, fillers, EDITS, fillers === PAIRED ? PAIRS : 0)
    // A start that was too slow for a busy machine is no reason to lose half an hour.
    const result = await once().catch(once)
    reloads.push({ name, fillers, ...result })
    console.log(JSON.stringify(reloads.at(-1)))
  }
}

const text = page({
  lines,
  reloads,
  node: lines.find(({ version }) => version.startsWith('24.')).version,
  edits: EDITS,
  pairs: PAIRS
})
const file = here('../docs/benchmarks.md')
if (quick) console.log(text)
else {
  writeFileSync(file, text)
  spawnSync(process.execPath, [here('../node_modules/oxfmt/bin/oxfmt'), file])
}
