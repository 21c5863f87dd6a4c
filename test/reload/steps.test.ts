import { once } from 'node:events'
import { symlinkSync, writeFileSync } from 'node:fs'
import { type AddressInfo, connect, createServer } from 'node:net'
import { join } from 'node:path'
import { describe, expect, test } from 'vitest'
import { type App, createApp, createFolder, gate, seq } from '../fixtures/app.ts'
import { bump, composing, reportsUntil, service } from '../fixtures/field-fixture.ts'
import { promptly, turn } from '../promptly.ts'

const files = {
  'harness.ts': composing('./agents.ts', './tools.ts', './sibling.ts'),
  'agents.ts': service('agents'),
  'tools.ts': service('tools'),
  'sibling.ts': service('sibling')
}
const versions = (app: App) => ['agents', 'tools', 'sibling'].map(name => app.service(name)?.['version'])

describe('saves during a reload', () => {
  const held = `ctx.effect(() => () => version === 1 && (gate('draining').resolve(), gate('drain').promise))`

  test('of the same provider and of another one both end with their newest content', async () => {
    const app = await createApp({ ...files, 'agents.ts': service('agents', held) })
    await app.next('ready')
    const versionOf = (n: number) => service('agents', held).replace('version = 1', `version = ${n}`)
    app.write('agents.ts', versionOf(2))
    await gate('draining').promise
    app.write('tools.ts', bump(files['tools.ts']))
    app.write('agents.ts', versionOf(3))
    for (let i = 0; i < 5; i++) await turn()
    app.write('agents.ts', versionOf(4))
    gate('drain').resolve()
    const reports = await reportsUntil(app, () => versions(app).join() === '4,2,1')
    expect(reports.every(({ outcome }) => outcome === 'reloaded' || outcome === 'ignored')).toBe(true)
    expect(seq.filter(line => line.startsWith('sibling'))).toEqual(['sibling 1 up'])
  })

  test('leave one instance on one port', async () => {
    const free = createServer().listen(0, '127.0.0.1')
    await once(free, 'listening')
    const { port } = free.address() as AddressInfo
    free.close()
    const listens = `const server = createServer(socket => socket.end(String(version))).listen(${port}, '127.0.0.1')
      server.on('error', error => seq.push(String(error)))
      ctx.effect(() => async () => {
        if (version === 1) { gate('draining').resolve(); await gate('drain').promise }
        await new Promise(resolve => server.close(resolve))
      })`
    const source = service('agents', listens, `import { createServer } from 'node:net'`)
    const app = await createApp({ ...files, 'agents.ts': source })
    await app.next('ready')
    app.write('agents.ts', bump(source))
    await gate('draining').promise
    app.write('agents.ts', bump(bump(source)))
    app.write('agents.ts', bump(bump(bump(source))))
    gate('drain').resolve()
    await reportsUntil(app, () => versions(app)[0] === 4)
    expect(seq.filter(line => line.includes('EADDRINUSE'))).toEqual([])
    const ups = seq.filter(line => line.startsWith('agents') && line.endsWith('up')).length
    expect(seq.filter(line => line.startsWith('agents') && line.endsWith('down'))).toHaveLength(ups - 1)
    expect(await await fetchText(port)).toBe('4')
  })
})

async function fetchText(port: number): Promise<string> {
  const socket = connect(port, '127.0.0.1')
  let text = ''
  for await (const chunk of socket) text += String(chunk)
  return text
}

describe('a save during', () => {
  const held = `(gate('step').resolve(), gate('go on').promise)`
  const sources: Record<string, (version: number) => string> = {
    stage: version => service('agents', '', version === 2 ? `await ${held}` : ''),
    close: () => service('agents'),
    drain: () => service('agents', `ctx.effect(() => () => version === 1 && ${held})`),
    install: version =>
      service('agents').replace(
        'version = 1',
        version === 2 ? `version = 1;async [Service.init]() { await ${held} }` : 'version = 1'
      )
  }

  test.each(Object.keys(sources))('%s runs next, one instance after the other', async step => {
    const source = (version: number) => sources[step]!(version).replace('version = 1', `version = ${version}`)
    const parks = step === 'close' ? `ctx.on('harness-hmr/before-reload', () => ${held})` : ''
    const app = await createApp({ ...files, 'agents.ts': source(1), 'sibling.ts': service('sibling', parks) })
    await app.next('ready')
    app.write('agents.ts', source(2))
    await promptly(gate('step').promise, step)
    app.write('agents.ts', source(3))
    // A stage that hears of the save while it hangs is given up, and not what this is about.
    for (let i = 0; step !== 'stage' && i < 5; i++) await turn()
    gate('go on').resolve()
    const reports = await reportsUntil(app, () => versions(app)[0] === 3)
    expect(reports.map(({ outcome }) => outcome).filter(outcome => outcome !== 'ignored')).toEqual([
      'reloaded',
      'reloaded'
    ])
    expect(seq.filter(line => line.startsWith('agents'))).toEqual([
      'agents 1 up',
      'agents 1 down',
      'agents 2 up',
      'agents 2 down',
      'agents 3 up'
    ])
  })
})

test('twelve providers that are saved at once, as by git, are one reload', async () => {
  const names = Array.from({ length: 12 }, (_, i) => `p${i}`)
  const app = await createApp({
    ...Object.fromEntries(names.map(name => [`${name}.ts`, service(name)])),
    'harness.ts': composing(...names.map(name => `./${name}.ts`))
  })
  await app.next('ready')
  for (const name of names) app.write(`${name}.ts`, bump(service(name)))
  const reports = await reportsUntil(app, () => names.every(name => app.service(name)?.['version'] === 2))
  expect(reports.filter(({ outcome }) => outcome !== 'ignored')).toHaveLength(1)
  expect(seq.filter(line => line.endsWith('up'))).toHaveLength(24)
})

test.each(['my agents.ts', 'ägents-日本.ts', 'a%20b.ts', '[agents].ts'])(
  'a provider in a file named %j is replaced',
  async name => {
    const app = await createApp({ ...files, 'harness.ts': composing(`./${name}`), [name]: service('agents') })
    await app.next('ready')
    expect(await app.edit(name, bump)).toMatchObject({ outcome: 'reloaded', cause: [join(app.root, name)] })
    expect(versions(app)[0]).toBe(2)
  }
)

test('a root that is a link has its providers replaced and its entry restarted', async () => {
  const real = createFolder(files)
  const root = join(createFolder({}), 'link')
  symlinkSync(real, root, 'junction')
  const app = await createApp({}, {}, { root })
  await app.next('ready')
  writeFileSync(join(real, 'agents.ts'), bump(files['agents.ts']))
  expect((await app.next('reload')).outcome).toBe('reloaded')
  writeFileSync(join(real, 'harness.ts'), composing('./agents.ts'))
  expect((await app.next('reload')).outcome).toBe('restarted')
  expect(versions(app)).toEqual([2, undefined, undefined])
})
