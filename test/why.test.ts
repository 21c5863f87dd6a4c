import { readFileSync } from 'node:fs'
import { join, relative } from 'node:path'
import { describe, expect, onTestFinished, test } from 'vitest'
import { why, type Found, type Named } from '../plugin/why.ts'
import { living } from '../plugin/why-living.ts'
import { createApp, type App } from './app.ts'
import { files, plants } from './why-plants.ts'

const bump = (source: string) => source.replace(/version = (\d+)/, (_, n: string) => `version = ${Number(n) + 1}`)

test('lab', async () => {
  const undo: (() => void)[] = []
  Object.assign(globalThis, { undo: (step: () => void) => undo.push(step) })
  onTestFinished(() => undo.forEach(step => step()))
  const app = await createApp(files)
  console.log(await app.next('ready'), app.lines)
  const parts = partsOf(app)
  const report = await app.edit('agents.ts', bump)
  expect(report.outcome).toBe('reloaded')
  await app.next('audit')
  const result = await why(parts, { ...living(app.harness.running!), onProgress: (s, f) => console.log(s, f) })
  console.log(result.ms, process.version)
  for (const {
    object,
    retainer: { what, location, path }
  } of result.found) {
    const l = location && `${relative(app.root, location.file)}:${location.line}`
    const p = plants[object]!
    const line =
      p.at &&
      readFileSync(join(app.root, p.at[0]), 'utf8')
        .split('\n')
        .findIndex(x => x.includes(p.at![1])) + 1
    const good =
      what === p.what && l === (p.at && `${p.at[0]}:${line}`) && (!p.via || path!.some(x => x.includes(p.via!)))
    console.log(
      good ? 'OK  ' : 'BAD ',
      object,
      '|',
      what,
      '|',
      l,
      good ? '' : '\n   want ' + p.what + ' ' + p.at?.[0] + ':' + line,
      '\n      ',
      path!.map(x => x.replaceAll(app.root + '/', '')).join(' → ')
    )
  }
  console.log(
    'missing',
    Object.keys(plants).filter(k => !result.found.some(f => f.object === k))
  )
}, 60_000)

function partsOf(app: App): Named[] {
  return Object.entries<object>(app.service('agents')['parts']).map(([name, part]) => ({
    name,
    ref: new WeakRef(part)
  }))
}
