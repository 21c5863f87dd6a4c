import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, onTestFinished, test, vi } from 'vitest'
import { createHarness, matchers, type TestHarness, type TestHarnessOptions } from '../../plugin/testing.ts'
import { createFolder } from '../fixtures/app.ts'

expect.extend(matchers)

const files = {
  'src/harness.ts': `
    import Agents from './providers/agents.ts'
    export default function harness(ctx: any, config: any) { ctx.plugin(Agents, config) }`,
  'src/providers/agents.ts': `
    import { Service } from 'cordis'
    import words from '../words.txt?raw'
    export const greeting = 'hello'
    export default class Agents extends Service {
      constructor(ctx: any, config: any) {
        super(ctx, 'agents')
        this.greet = () => greeting + ' ' + words
        this.config = config
      }
    }`,
  'src/words.txt': 'world'
}

/** With what a harness may leave behind. */
const leaking = (statement: string) => ({
  ...files,
  'src/providers/agents.ts': files['src/providers/agents.ts'].replace('this.config = config', statement)
})

async function start(root: string, options: TestHarnessOptions = {}): Promise<TestHarness> {
  const harness = await createHarness({ root, entry: 'src/harness.ts', ...options })
  onTestFinished(() => harness.close())
  return harness
}

const failure = (promise: Promise<unknown>) =>
  promise.then(
    () => 'it did not fail',
    (error: Error) => error.message
  )

const greeting = (harness: TestHarness): string => harness.ctx.get('agents').greet()

describe('createHarness', () => {
  test('runs a harness that is reloaded and has released everything', async () => {
    const harness = await start(createFolder(files), { config: { name: 'ada' } })
    expect(harness.ctx.get('agents').config).toEqual({ name: 'ada' })
    const report = await harness.reload('src/providers/agents.ts')
    expect(report).toMatchObject({ outcome: 'reloaded', providers: [{ name: 'agents', from: 1, to: 2 }] })
    await expect(harness).toHaveReleasedEverything()
    expect(await harness.audit()).toMatchObject([{ name: 'agents', generation: 1, outcome: 'collected' }])
    expect(harness.reports()).toEqual([report])
    expect(harness.errors()).toEqual([])
  })

  test('edits in memory: the harness runs the edit, the disk and the next harness do not', async () => {
    const root = createFolder(files)
    const harness = await start(root)
    for (const word of ['good morning', 'good evening', 'hello']) {
      const { outcome } = await harness.edit('src/providers/agents.ts', source =>
        source.replace(/greeting = '.*'/, `greeting = '${word}'`)
      )
      expect([outcome, greeting(harness)]).toEqual(['reloaded', `${word} world`])
    }
    await harness.edit('src/providers/agents.ts', source => source.replace('hello', 'bye'))
    await harness.close()
    expect(readFileSync(join(root, 'src/providers/agents.ts'), 'utf8')).toBe(files['src/providers/agents.ts'])
    expect(greeting(await start(root))).toBe('hello world')
  })

  test('edits a file that is imported as text', async () => {
    const harness = await start(createFolder(files))
    expect(await harness.edit('src/words.txt', 'moon')).toMatchObject({ outcome: 'reloaded' })
    expect(greeting(harness)).toBe('hello moon')
  })

  test('reports an edit that does not work with the lines that were edited, and the next edit mends it', async () => {
    const harness = await start(createFolder(files))
    const { outcome, error } = await harness.edit(
      'src/providers/agents.ts',
      source => `const before = 1\n${source}\nthrow new Error('broken')`
    )
    expect(outcome).toBe('kept')
    expect(error).toMatchObject({ message: 'broken', location: { line: 13 } })
    expect(error!.frame).toContain(`> 13 | throw new Error('broken')`)
    expect(greeting(harness)).toBe('hello world')
    const mended = await harness.edit(
      'src/providers/agents.ts',
      files['src/providers/agents.ts'] + '\nexport const x = 1'
    )
    expect(mended.outcome).toBe('reloaded')
  })

  test('tries an edit together with the one before it that did not work', async () => {
    const harness = await start(createFolder({ ...files, 'src/words.ts': 'export const words = 1' }))
    const edit = (source: string) =>
      source.replace('import words', `import { more } from '../words.ts'\nimport words`).replace("' ' + words", 'more')
    expect(await failure(harness.edit('src/words.ts', 'export const more = 2'))).toContain('no running module')
    await harness.edit('src/providers/agents.ts', source => `import '../words.ts'\n${source}`)
    expect(await harness.edit('src/providers/agents.ts', source => `${edit(source)}\nmore.length`)).toMatchObject({
      outcome: 'kept'
    })
    expect(await harness.edit('src/words.ts', `export const more = '!'`)).toMatchObject({ outcome: 'reloaded' })
    expect(greeting(harness)).toBe('hello!')
  })

  test('edits that are made at once come live together', async () => {
    const harness = await start(createFolder(files))
    const [first, second] = await Promise.all([
      harness.edit('src/words.txt', 'moon'),
      harness.edit('src/providers/agents.ts', source => source.replace('hello', 'bye'))
    ])
    expect(greeting(harness)).toBe('bye moon')
    expect([first.outcome, second.outcome]).toEqual(['reloaded', 'reloaded'])
  })

  test("reads the project's config, and runs its harnessHmr() without an entry", async () => {
    const root = createFolder({
      ...files,
      'vite.config.mjs': `
        import { fileURLToPath } from 'node:url'
        const { harnessHmr } = globalThis.harnessHmrOfTest
        export default {
          resolve: { alias: { '@': fileURLToPath(new URL('src', import.meta.url)) } },
          plugins: [Promise.resolve([harnessHmr({ entry: 'src/harness.ts', config: 'of the project' })])]
        }`,
      'src/providers/agents.ts': files['src/providers/agents.ts'].replace('../words.txt?raw', '@/words.txt?raw')
    })
    Object.assign(globalThis, { harnessHmrOfTest: await import('../../plugin/index.ts') })
    onTestFinished(() => void delete (globalThis as Record<string, unknown>)['harnessHmrOfTest'])
    const configured = await start(root, { entry: undefined })
    expect(configured.ctx.get('agents').config).toBe('of the project')
    expect(greeting(configured)).toBe('hello world')
    const own = await start(root, { config: 'of the test' })
    expect(own.ctx.get('agents').config).toBe('of the test')
    expect(await failure(start(root, { entry: undefined, deadline: 1 }))).toMatch(
      /^option "deadline" needs an "entry": without one, harnessHmr\(\) in .*vite\.config\.mjs runs as it is$/
    )
  })

  test('prints nothing', async () => {
    const written = vi.spyOn(process.stdout, 'write').mockImplementation(() => true)
    const failed = vi.spyOn(process.stderr, 'write').mockImplementation(() => true)
    onTestFinished(() => void vi.restoreAllMocks())
    const harness = await start(createFolder(files))
    await harness.edit('src/providers/agents.ts', 'not a module (')
    await harness.reload('src/words.txt')
    await harness.close()
    expect([...written.mock.calls, ...failed.mock.calls]).toEqual([])
  })

  test('refuses what cannot be edited', async () => {
    const reader = {
      name: 'reader',
      async load(this: any, id: string) {
        if (!id.endsWith('data.ts')) return undefined
        const file = id.replace('data.ts', 'data.csv')
        this.addWatchFile(file)
        return `export default ${JSON.stringify(readFileSync(file, 'utf8'))}`
      }
    }
    const root = createFolder({
      ...files,
      'src/providers/agents.ts': files['src/providers/agents.ts'].replace('../words.txt?raw', './data.ts'),
      'src/providers/data.ts': '',
      'src/providers/data.csv': '1'
    })
    const harness = await start(root, { vite: { plugins: [reader] } })
    expect(await failure(harness.edit('src/nothing.ts', ''))).toBe(
      `"src/nothing.ts": no running module is made of ${root}/src/nothing.ts`
    )
    expect(await failure(harness.reload('src/nothing.ts'))).toContain('no running module is made of')
    expect(await failure(harness.edit('src/harness.ts', source => source))).toBe(
      'edit of "src/harness.ts" changes nothing'
    )
    expect(await failure(harness.edit('src/providers/data.csv', '2'))).toBe(
      `edit of "src/providers/data.csv": it is read from the disk by ${root}/src/providers/data.ts. Write it, then call \`reload()\``
    )
    await harness.close()
    expect(await failure(harness.reload('src/harness.ts'))).toBe('the harness is closed')
    expect(await failure(harness.audit())).toBe('the harness is closed')
  })
})

describe('a harness that does not start', () => {
  test.each<[string, Record<string, string>, string]>([
    [
      'an entry that is not there',
      { 'src/harness.ts': undefined as never },
      'does not exist. Set `harnessHmr({ entry })`'
    ],
    [
      'an entry that throws',
      { 'src/harness.ts': `export const a = 1\nthrow new Error('no wonder')` },
      'the harness did not start: src/harness.ts:2:7 no wonder'
    ],
    [
      'a provider that does not parse',
      { 'src/providers/agents.ts': `\n\nexport default class {` },
      'the harness did not start: src/providers/agents.ts:3:'
    ],
    [
      'a provider that throws when it is applied',
      leaking(`throw new Error('no agents here')`),
      'the harness did not start: provider "Agents" failed\nsrc/providers/agents.ts:9:15 no agents here'
    ]
  ])('is told with the place: %s', async (_, broken, message) => {
    const kept = Object.entries({ ...files, ...broken }).filter(([, source]) => source !== undefined)
    expect(await failure(start(createFolder(Object.fromEntries(kept))))).toContain(message)
  })

  test('is told where neither an entry nor a config says what to run', async () => {
    expect(await failure(start(createFolder(files), { entry: undefined }))).toBe(
      'no "entry" is given, and the config has no harnessHmr()'
    )
  })
})

test('a root that does not exist is told', async () => {
  expect(await failure(start('/does/not/exist'))).toBe('root "/does/not/exist" does not exist')
})

describe('toHaveReleasedEverything', () => {
  const verdict = (harness: TestHarness) => failure(expect(harness).toHaveReleasedEverything())

  test('fails with the generation that is kept, also after a later one is gone', async () => {
    const kept: unknown[] = []
    Object.assign(globalThis, { keptByTest: kept })
    const harness = await start(
      createFolder(leaking('if (globalThis.keptByTest.length < 1) globalThis.keptByTest.push(this)'))
    )
    await harness.reload('src/providers/agents.ts')
    await harness.reload('src/providers/agents.ts')
    expect(await verdict(harness)).toMatch(
      /^expected everything to be released, but\n {2}retained agents 1 {2}1 of 1 instance/
    )
    await expect(harness).not.toHaveReleasedEverything()
    kept.length = 0
    await expect(harness).toHaveReleasedEverything()
  })

  test('fails with what keeps the generation, when the heap is to be searched for it', async () => {
    const harness = await start(
      createFolder({
        ...leaking('history.push(this)'),
        'src/history.ts': 'export const history: unknown[] = []',
        'src/providers/agents.ts': `import { history } from '../history.ts'\n${leaking('history.push(this)')['src/providers/agents.ts']}`
      })
    )
    await harness.reload('src/providers/agents.ts')
    expect(await verdict(harness)).toContain('toHaveReleasedEverything({ why: true }) searches the heap')
    const searched = await failure(expect(harness).toHaveReleasedEverything({ why: true }))
    expect(searched).toMatch(/module-level array "history".*src\/history\.ts:1/)
  }, 60_000)

  test('fails with the listeners that were left on process', async () => {
    const harness = await start(createFolder(leaking(`process.on('SIGUSR2', () => {})`)))
    onTestFinished(() => void process.removeAllListeners('SIGUSR2'))
    await harness.reload('src/providers/agents.ts')
    expect(await verdict(harness)).toContain('process has 2 listeners for "SIGUSR2", 1 more than before')
  })

  test('fails with the timer that was left running, by its line', async () => {
    const harness = await start(
      createFolder(leaking(';(globalThis.timersOfTest ??= []).push(setInterval(() => this, 1e6))'))
    )
    onTestFinished(() => (globalThis as any).timersOfTest.forEach(clearInterval))
    await harness.reload('src/providers/agents.ts')
    expect(await verdict(harness)).toMatch(/setInterval {2}.*src\/providers\/agents\.ts:9:/)
  })

  test('proves nothing where nothing was retired', async () => {
    const harness = await start(createFolder(files))
    expect(await verdict(harness)).toContain('nothing was retired yet')
    await harness.edit('src/providers/agents.ts', 'not a module (')
    expect(await verdict(harness)).toContain('nothing was retired yet')
    expect(await failure(expect(1 as unknown).toHaveReleasedEverything())).toContain('takes what createHarness()')
  })
})
