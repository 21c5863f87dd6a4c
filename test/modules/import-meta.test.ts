import { execFileSync } from 'node:child_process'
import { symlinkSync } from 'node:fs'
import { join } from 'node:path'
import { pathToFileURL } from 'node:url'
import { expect, test } from 'vitest'
import { type App, createApp } from '../fixtures/app.ts'
import { bump, composing, service } from '../fixtures/field-fixture.ts'

const specifiers = `./prompt.txt ../beside.txt ./gone.txt ./prompt.txt?v=1#part ./link.txt /gone . ./folder
  fs node:fs/promises https://example.org/a data:text/plain,1 cordis vite/client
  dual dual/features/a dual/features/private/a dual/nowhere @scope/plain @scope/plain/lib/b.js nested string listed
  app app/sub #own #dep #none @scope a%b missing missing/sub.js mainless closed`.split(/\s+/)

const probe = `const tell = specifier => {
    try { return import.meta.resolve(specifier) } catch (error) { return 'code ' + error.code }
  }
  const { dirname, filename, url, main = false } = import.meta
  export const found = { dirname, filename, url, main, resolved: ${JSON.stringify(specifiers)}.map(one => one + ' → ' + tell(one)) }`

const json = JSON.stringify
const files = {
  'harness.ts': composing('./app/agents.ts'),
  'beside.txt': '',
  'app/agents.ts': service('agents', `ctx.provide('found', found)`, `import { found } from './probe.mjs'`),
  'app/package.json': json({
    name: 'app',
    type: 'module',
    exports: { '.': './index.js', './sub': { import: './sub.js' } },
    imports: { '#own': './own.js', '#dep': 'dual' }
  }),
  'app/probe.mjs': probe,
  'app/prompt.txt': 'be brief',
  'app/folder/.keep': '',
  'app/node_modules/nested/package.json': json({ exports: { default: './near.js' } }),
  'app/node_modules/nested/near.js': '',
  'app/node_modules/dual/package.json': json({
    exports: {
      '.': { types: './d.ts', browser: './browser.js', node: { import: './node.mjs' }, default: './other.js' },
      './features/*': './src/*.js',
      './features/private/*': null
    }
  }),
  'app/node_modules/dual/node.mjs': '',
  'node_modules/nested/package.json': json({ exports: './far.js' }),
  'app/node_modules/string/package.json': json({ exports: './string.js' }),
  'app/node_modules/listed/package.json': json({ exports: [{ browser: './browser.js' }, './listed.js'] }),
  'app/node_modules/closed/package.json': json({ exports: { require: './closed.cjs' } }),
  'app/node_modules/mainless/package.json': json({}),
  'app/node_modules/@scope/plain/package.json': json({ main: './lib/main' }),
  'app/node_modules/@scope/plain/lib/main.js': ''
}

/** What plain Node gives for the same file. */
function inNode(app: App): unknown {
  const url = pathToFileURL(join(app.root, 'app/probe.mjs'))
  const script = `import(${json(url)}).then(({ found }) => console.log(JSON.stringify(found)))`
  return JSON.parse(execFileSync(process.execPath, ['--input-type=module', '-e', script], { encoding: 'utf8' }))
}

test('`import.meta` is what plain Node makes it, also after a reload', async () => {
  const link = ({ root }: { root: string }) => symlinkSync(join(root, 'app/prompt.txt'), join(root, 'app/link.txt'))
  const app = await createApp(files, {}, { plugins: [{ name: 'link', configResolved: link }] })
  await app.next('ready')
  const plain = inNode(app)
  expect(app.service('found')).toEqual(plain)
  expect((await app.edit('app/agents.ts', bump)).outcome).toBe('reloaded')
  expect((await app.edit('app/probe.mjs', source => `const more = 1\n${source}`)).outcome).toBe('reloaded')
  expect(app.service('found')).toEqual(plain)
})
