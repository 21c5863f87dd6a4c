import { readFileSync } from 'node:fs'
import { join, relative } from 'node:path'
import { expect, onTestFinished, test } from 'vitest'
import { why, type Found, type Named } from '../../plugin/why/why.ts'
import { createApp, type App } from '../fixtures/app.ts'
import { files, plants, type Plant } from '../fixtures/why-plants.ts'
import { bump } from '../fixtures/field-fixture.ts'

/** Searches the heap of a running app. */
function search({ harness, root, service }: App, retired: Named[]): Promise<Found> {
  const running = harness.running!.host.scripts().map(({ file, version }) => `${file}?v=${version}`)
  const sessions = service<object | undefined>('sessions')
  const alive = sessions ? [{ name: 'service "sessions"', ref: new WeakRef(sessions) }] : []
  return why(retired, { running, alive, root })
}

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

const timer = {
  'harness.ts': `
    import Agents from './agents.ts'
    export default function harness(ctx: any) { ctx.plugin(Agents) }`,
  'agents.ts': `
    import { AsyncLocalStorage } from 'node:async_hooks'
    import { EventEmitter } from 'node:events'
    import { Service } from 'cordis'
    export const version = 1
    export default class Agents extends Service {
      bus = new EventEmitter()
      constructor(ctx: any) {
        super(ctx, 'agents')
        const storage = new AsyncLocalStorage<object>()
        this.bus.on('tick', () => storage.getStore())
        if (version === 1) this.start()
      }
      start() {
        globalThis.handles.push(setInterval(() => this.bus.emit('tick'), 1e6))
      }
    }`
}

test('an instance is told by what holds it from outside, and nothing is found once that lets go', async () => {
  const handles = handlesOfPlants()
  const app = await createApp(timer)
  await app.next('ready')
  const retired = objectsOf(app, join(app.root, 'agents.ts'))
  await app.edit('agents.ts', bump)
  const { found } = await search(app, retired)
  const interval = placeOf({ plant: '', what: '', at: ['agents.ts', 'setInterval'] }, app)
  // Its own listener, on its own emitter, is not what keeps it.
  expect(Object.fromEntries(found.map(named(app)))).toEqual({
    storage: `setInterval  ${interval}`,
    service: `setInterval  ${interval}`,
    fiber: `setInterval  ${interval}`
  })
  for (const handle of handles.splice(0)) handle.close()
  expect((await search(app, retired)).found).toEqual([])
}, 60_000)

/** In a function of its own: the variables of a suspended test would hold them. */
function objectsOf(app: App, module: string): Named[] {
  const { fibers, providers, ledger } = app.harness.running!
  const storages = ledger.live().map(({ storage }): Named => ({ name: 'storage', ref: storage }))
  const objects = providers.of(module).instances.flatMap(({ fiber }) => fibers.objects(fiber))
  return [
    ...storages,
    ...objects.map((object, i) => ({ name: i === 0 ? 'fiber' : 'service', ref: new WeakRef(object) }))
  ]
}
