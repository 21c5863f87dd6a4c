// `npm run test:dsh [lines…]`: examples/dsh with the plugin as it is published, on the Node lines that its packages support.
// Needs `npm run build` first, and the registry.
import { cpSync, readFileSync, writeFileSync } from 'node:fs'
import { delimiter, dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { nodeOf, run } from './node-lines.mjs'
import { npmScript, temporaryFolder } from './npm.mjs'

const root = fileURLToPath(new URL('..', import.meta.url))
const npm = npmScript()
const folder = temporaryFolder('dsh')

/** Runs npm with the Node that is given. */
async function runNpm(node, ...args) {
  const env = { ...process.env, PATH: `${dirname(node)}${delimiter}${process.env.PATH}` }
  const { code } = await run(node, [npm, ...args, '--no-audit', '--no-fund', '--loglevel=error'], { env })
  if (code !== 0) throw new Error(`npm ${args[0]} failed`)
}

await runNpm(process.execPath, 'pack', '--ignore-scripts', '--pack-destination', folder)
const { version } = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8'))
const lines = process.argv.length > 2 ? process.argv.slice(2) : ['24']
const failed = []
for (const line of lines) {
  const node = await nodeOf(line)
  const app = join(folder, line)
  cpSync(join(root, 'examples/dsh'), app, { recursive: true })
  cpSync(join(root, '.ci/dsh-proof.mjs'), join(app, 'proof.mjs'))
  const manifest = readFileSync(join(app, 'package.json'), 'utf8')
  const packed = `file:${join(folder, `harness-hmr-${version}.tgz`).replaceAll('\\', '/')}`
  writeFileSync(
    join(app, 'package.json'),
    manifest.replace(/("harness-hmr": )"[^"]+"/, (_, key) => `${key}"${packed}"`)
  )
  await runNpm(node, 'install', '--prefix', app)
  for (const mode of ['ts', 'yml']) {
    const { code } = await run(node, [join(app, 'proof.mjs'), mode])
    if (code !== 0) failed.push(`Node ${line}, ${mode}`)
  }
}
console.log(failed.length > 0 ? `failed: ${failed.join('; ')}` : `passed on Node ${lines.join(', ')}`)
process.exitCode = failed.length > 0 ? 1 : 0
