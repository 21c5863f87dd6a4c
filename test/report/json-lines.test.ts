import { describe, expect, test } from 'vitest'
import { harnessHmr } from '../../plugin/index.ts'
import { jsonLines } from '../../plugin/report/json-lines.ts'
import { type ReloadReport, reason } from '../../plugin/report/report.ts'
import { createCopy } from '../fixtures/probe.ts'
import { DevServer } from '../fixtures/dev-server.ts'
import { anyPort } from '../fixtures/port.ts'

interface Line {
  type: string
  [key: string]: unknown
}

describe('lines of JSON', () => {
  test.each([
    ['by an argument', ['--logLevel', 'silent', '--', '--json'], {}],
    ['by a variable', ['--logLevel', 'silent'], { HARNESS_HMR_JSON: '1' }]
  ])('asked for %s, tell of the boot, a reload and its audit, and nothing for people', async (_, args, env) => {
    const copy = createCopy()
    Object.assign(process.env, env)
    const vite = [process.execPath, 'node_modules/vite/bin/vite.js', '--port', String(anyPort())]
    const server = new DevServer(copy, [...vite, ...args])
    for (const name of Object.keys(env)) delete process.env[name]
    const told = () => server.lines.filter(line => line.startsWith('{')).map(line => JSON.parse(line) as Line)
    const next = (type: string) => server.until(`a line of type ${type}`, () => told().find(line => line.type === type))
    const ready = await next('ready')
    expect(ready).toMatchObject({ failed: [], page: expect.stringMatching(/^http.*\/__harness\/$/) as string })
    expect(await (await fetch(ready['page'] as string)).text()).toContain('<title>harness-hmr</title>')
    copy.edit('playground/providers/tools.ts', source => `${source}\n// saved`)
    const reload = await next('reload')
    expect(reload).toMatchObject({ outcome: 'reloaded', providers: [{ name: 'tools', from: 1, to: 2 }] })
    expect(await next('audit')).toMatchObject({ reload: reload['id'], name: 'tools', generation: 1 })
    expect(server.lines.filter(line => line.includes('[harness-hmr]'))).toEqual([])
  })

  test('leave out what a reader of lines is not told either', () => {
    const lines: string[] = []
    const { reload, slow } = jsonLines(
      line => lines.push(line),
      () => undefined
    )
    const report = { type: 'reload', outcome: 'ignored' } as ReloadReport
    for (const code of ['unused', 'same', 'aside'] as const) reload!({ ...report, reason: reason(code) })
    slow!({
      step: 'drain',
      providers: ['agents 1'],
      parking: [],
      parkingTotal: 0,
      open: [],
      total: 0,
      unloading: [{ name: 'agentLoop', uses: ['agents'] }],
      left: null
    })
    expect(lines.every(line => line.endsWith('}\n') && line.indexOf('\n') === line.length - 1)).toBe(true)
    expect(lines.map(line => (JSON.parse(line) as Line).type)).toEqual(['reload', 'slow'])
  })
})

test('the page is a dock where Vite DevTools are installed', () => {
  const docks: object[] = []
  const [plugin] = harnessHmr({ entry: 'harness.ts' })
  const { devtools } = plugin as unknown as { devtools: { setup(context: object): void } }
  devtools.setup({ viteConfig: { base: '/base/' }, docks: { register: (dock: object) => docks.push(dock) } })
  expect(docks).toMatchObject([{ id: 'harness-hmr', type: 'iframe', url: '/base/__harness/' }])
  // An older or later kit may hand over something else: the plugin goes on without a dock.
  devtools.setup({})
})
