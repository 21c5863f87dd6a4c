// Where the benchmarks run: a folder of their own, with the peers exactly as pinned and with the plugin as it is packed.
import { spawnSync } from 'node:child_process'
import { cpSync, existsSync, mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'

const here = path => fileURLToPath(new URL(path, import.meta.url))
const peers = readFileSync(here('peers.json'), 'utf8')

/** Kept between runs. */
export const folder = join(tmpdir(), 'harness-hmr-bench')

function command(...args) {
  const { status, stdout, stderr } = spawnSync(process.execPath, args, { cwd: folder, encoding: 'utf8' })
  if (status !== 0) throw new Error(`${args.join(' ')}: ${stdout}${stderr}`)
}

/** Installs the peers where they are not as pinned, and the plugin as the repository has it. */
export function prepare() {
  const manifest = join(folder, 'package.json')
  if (!existsSync(manifest) || readFileSync(manifest, 'utf8') !== peers) {
    rmSync(folder, { recursive: true, force: true })
    mkdirSync(folder, { recursive: true })
    writeFileSync(join(folder, 'peers.json'), peers)
    const npm = process.env.npm_execpath
    if (!npm) throw new Error('run it by `npm run bench`')
    cpSync(here('peers.json'), manifest)
    // What the peers expect beside them is pinned too, where it is used.
    command(npm, 'install', '--no-audit', '--no-fund', '--no-package-lock', '--legacy-peer-deps')
    writeFileSync(manifest, peers)
  }
  const own = join(folder, 'node_modules/harness-hmr')
  rmSync(own, { recursive: true, force: true })
  command(
    here('../node_modules/typescript/bin/tsc'),
    '-p',
    here('../tsconfig.build.json'),
    '--outDir',
    join(own, 'dist')
  )
  cpSync(here('../package.json'), join(own, 'package.json'))
}

/** The app with so many filler modules, in a new folder. */
export function app(name, fillers) {
  const root = join(folder, 'apps', `${name}-${fillers}`)
  rmSync(root, { recursive: true, force: true })
  cpSync(here('app'), root, { recursive: true })
  const names = Array.from({ length: fillers }, (_, index) => `filler-${index}.js`)
  // In a folder of their own: chokidar reads all of a folder whenever a file of it is saved.
  const imports = names.map(name => `import './fillers/${name}'\n`).join('')
  mkdirSync(join(root, 'fillers'))
  writeFileSync(
    join(root, 'fillers.js'),
    `import './probe.js'\n${imports}globalThis.bench.evaluated++\nexport default { name: 'fillers', apply() {} }\n`
  )
  for (const name of names)
    writeFileSync(join(root, 'fillers', name), `globalThis.bench.evaluated++\nexport const name = '${name}'\n`)
  const hotHook = { root: 'hot-hook-start.js', boundaries: ['provider.js'] }
  writeFileSync(join(root, 'package.json'), JSON.stringify({ private: true, type: 'module', hotHook }))
  return root
}

/** The version of a package that is installed for the benchmarks. */
export function versionOf(name) {
  return JSON.parse(readFileSync(join(folder, 'node_modules', name, 'package.json'), 'utf8')).version
}
