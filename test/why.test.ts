import { readFileSync } from 'node:fs'
import { join, relative } from 'node:path'
import { expect, onTestFinished, test } from 'vitest'
import { why, type Found, type Named } from '../plugin/why.ts'
import { living } from '../plugin/why-living.ts'
import { createApp, type App } from './app.ts'
import { files, plants, type Plant } from './why-plants.ts'

const bump = (source: string) => source.replace(/version = (\d+)/, (_, n: string) => `version = ${Number(n) + 1}`)

/** Searches the heap of a running app, as its user would. */
const search = (app: App, retired: Named[]) => why(retired, { ...living(app.harness.running!), root: app.root })

test('every kind of retainer is named with its place, and with what is on the way', async () => {
  const handles = handlesOfPlants()
  const app = await createApp(files)
  await app.next('ready')
  const parts = Object.entries<object>(app.service('agents')['parts']).map(([name, part]) => ({
    name,
    ref: new WeakRef(part)
  }))
  expect((await app.edit('agents.ts', bump)).outcome).toBe('reloaded')
  const { found } = await search(app, parts)
  expect(handles.length).toBeGreaterThan(0)
  const expected = Object.entries(plants).map(([kind, plant]) => [kind, `${plant.what}  ${placeOf(plant, app)}`])
  expect(Object.fromEntries(found.map(named(app)))).toEqual(Object.fromEntries(expected))
  for (const { object, retainer } of found) {
    const { via } = plants[object]!
    if (via) expect(retainer.path).toContainEqual(expect.stringContaining(via))
  }
}, 60_000)

/** What the plants leave running is closed at the end of the test. */
function handlesOfPlants(): ({ close(): void } | NodeJS.Timeout)[] {
  const handles: ({ close(): void } | NodeJS.Timeout)[] = []
  Object.assign(globalThis, { handles })
  onTestFinished(() => {
    for (const handle of handles) handle.close()
    process.removeAllListeners('SIGUSR2')
    Reflect.deleteProperty(globalThis, 'handles')
    Reflect.deleteProperty(globalThis, 'whyLeaked')
  })
  return handles
}

const named =
  (app: App) =>
  ({ object, retainer: { what, location } }: Found['found'][number]): [string, string] => [
    object,
    `${what}  ${location ? `${relative(app.root, location.file)}:${location.line}` : ''}`
  ]

function placeOf({ at }: Plant, app: App): string {
  if (!at) return ''
  const [file, piece] = at
  const lines = readFileSync(join(app.root, file), 'utf8').split('\n')
  return `${file}:${lines.findIndex(line => line.includes(piece)) + 1}`
}
