// `npm run docs:api`: writes docs/api/, the reference of what the package exports, from the docstrings. With `--check` it writes
// nothing, and fails where the files are not what it would write, or where an export has no docstring.
import assert from 'node:assert/strict'
import { cpSync, readdirSync, readFileSync, rmSync } from 'node:fs'
import { createRequire } from 'node:module'
import { join } from 'node:path'
import { fileURLToPath, pathToFileURL } from 'node:url'
import { spawnSync } from 'node:child_process'
import { npmScript, temporaryFolder } from '../.ci/npm.mjs'

// Not in package.json: typedoc needs a TypeScript of its own, with the interface that version 7 does not have.
const TOOLS = ['typedoc@0.28.20', 'typedoc-plugin-markdown@4.14.1', 'typescript@6.0.3']

const root = fileURLToPath(new URL('..', import.meta.url))
const folder = temporaryFolder('api')

const args = ['install', '--no-save', '--no-audit', '--no-fund', '--loglevel=error', '--prefix', folder, ...TOOLS]
const { status } = spawnSync(process.execPath, [npmScript(), ...args], { stdio: 'inherit' })
assert.equal(status, 0, 'typedoc cannot be installed')

const { resolve } = createRequire(join(folder, 'index.js'))
const { Application, LogLevel } = await import(pathToFileURL(resolve('typedoc')).href)
const out = join(folder, 'api')
const app = await Application.bootstrapWithPlugins({
  entryPoints: ['index', 'scope', 'testing', 'dsh'].map(name => join(root, 'plugin', `${name}.ts`)),
  tsconfig: join(root, 'tsconfig.json'),
  plugin: [resolve('typedoc-plugin-markdown')],
  name: 'harness-hmr',
  out,
  readme: 'none',
  disableSources: true,
  excludePrivate: true,
  excludeInternal: true,
  excludeExternals: true,
  outputFileStrategy: 'modules',
  mergeReadme: true,
  hidePageHeader: true,
  hideBreadcrumbs: true,
  useCodeBlocks: true,
  parametersFormat: 'table',
  interfacePropertiesFormat: 'table',
  classPropertiesFormat: 'table',
  typeDeclarationFormat: 'table',
  // Structural: what DSH's own context has.
  intentionallyNotExported: ['plugin/dsh/types.ts:Context', 'plugin/report/report.ts:OUTCOMES'],
  validation: { notExported: true, invalidLink: true, notDocumented: true },
  requiredToBeDocumented: ['Variable', 'Function', 'Class', 'Interface', 'Method', 'TypeAlias'],
  logLevel: LogLevel.Warn
})
const project = await app.convert()
assert.ok(project, 'the sources cannot be read')
app.validate(project)
await app.generateOutputs(project)
assert.equal(
  app.logger.hasErrors() || app.logger.hasWarnings(),
  false,
  'an export lacks its docstring, or a type is not exported'
)

const target = join(root, 'docs/api')
// The formatter of the repository has its say over Markdown, too.
cpSync(join(root, '.oxfmtrc.json'), join(folder, '.oxfmtrc.json'))
spawnSync(process.execPath, [join(root, 'node_modules/oxfmt/bin/oxfmt'), out], { cwd: folder })
const files = path => readdirSync(path).toSorted()
if (process.argv.includes('--check')) {
  assert.deepEqual(files(target), files(out), 'docs/api is not up to date: run `npm run docs:api`')
  for (const name of files(out)) {
    const text = path => readFileSync(join(path, name), 'utf8')
    assert.equal(text(target), text(out), `docs/api/${name} is not up to date: run \`npm run docs:api\``)
  }
} else {
  rmSync(target, { recursive: true, force: true })
  cpSync(out, target, { recursive: true })
}
