import { expect, test } from 'vitest'
import { assertSupported, type Surroundings, warningsFor } from '../../plugin/vite/requirements.ts'
import { createApp } from '../fixtures/app.ts'
import { anyPort } from '../fixtures/port.ts'

const good: Surroundings = {
  node: '20.19.0',
  vite: '8.3.0',
  hmr: {},
  watch: {},
  bundledDev: false,
  script: '/x/vite.js'
}

test.each(['20.19.0', '20.20.2', '22.12.0', '24.1.0', '26.0.0'])('Node %s is supported', node => {
  expect(() => assertSupported({ ...good, node })).not.toThrow()
})

test.each(['18.20.0', '20.18.9', '21.7.0', '22.11.0'])('Node %s is refused with what is needed', node => {
  expect(() => assertSupported({ ...good, node })).toThrow(
    `harness-hmr needs Node 20.19, or 22.12 or newer; this is ${node}`
  )
})

test('a Vite that does not wait for the old harness is refused', () => {
  expect(() => assertSupported({ ...good, vite: '8.2.9' })).toThrow('harness-hmr needs Vite 8.3 or newer')
  expect(() => assertSupported({ ...good, vite: '9.0.0' })).not.toThrow()
})

test.each<[Partial<Surroundings>, string]>([
  [{ hmr: false }, '`server.hmr` is false'],
  [{ watch: null }, '`server.watch` is null'],
  [{ bundledDev: true }, '`experimental.bundledDev` is on'],
  [{ script: '/app/node_modules/vite-node/dist/cli.mjs' }, 'vite-node runs a script and no dev server']
])('%o is warned of, with the remedy', (change, message) => {
  expect(warningsFor({ ...good, ...change })).toEqual([expect.stringContaining(message)])
})

test('nothing is said of a config that works', () => {
  expect(warningsFor(good)).toEqual([])
})

test('a dev server that notices no saves is told so once', async () => {
  const entry = { 'harness.ts': 'export default function harness() {}' }
  const app = await createApp(entry, {}, { server: { hmr: false, port: anyPort(), host: '127.0.0.1' } })
  await app.next('ready')
  expect(app.lines.filter(line => line.includes('`server.hmr` is false'))).toHaveLength(1)
})
