import { AsyncLocalStorage, AsyncResource } from 'node:async_hooks'
import { execFile } from 'node:child_process'
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { createServer, type Server } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { build } from 'vite'
import { afterAll, beforeAll, describe, expect, onTestFinished, test } from 'vitest'
import { BoundaryScope, SCOPE_SLOT } from '../../plugin/scope.ts'
import { alive } from '../gc.ts'
import { deferred, promptly, turn } from '../promptly.ts'

const slots = globalThis as Record<symbol, unknown>
const legacy = '_enable' in AsyncLocalStorage.prototype

// Closes over nothing: a callback written inside a test would keep that test's values by itself.
const idle = (): void => {}

/** Remembers the storage of every scope of this test, and nothing else of it. */
function storages(): WeakRef<object>[] {
  const refs: WeakRef<object>[] = []
  slots[SCOPE_SLOT] = (_: unknown, storage: object) => void refs.push(new WeakRef(storage))
  onTestFinished(() => void delete slots[SCOPE_SLOT])
  return refs
}

describe('after disposal', () => {
  test('the carried value and the scope are collected while a timer, a promise and a server of the boundary live on', async () => {
    const refs: WeakRef<object>[] = []
    const pending = deferred()
    const survivors = {} as { timer: NodeJS.Timeout; promise: Promise<unknown>; server: Server }
    async function operate(): Promise<void> {
      const scope = new BoundaryScope<object>()
      const value = { carried: true }
      refs.push(new WeakRef(scope), new WeakRef(value))
      await scope.run(value, async () => {
        survivors.timer = setInterval(idle, 1 << 30)
        survivors.promise = pending.promise.then(idle)
        survivors.server = createServer()
        await new Promise<void>(resolve => survivors.server.listen(0, '127.0.0.1', resolve))
      })
      await scope.dispose()
    }
    await operate()
    onTestFinished(() => {
      clearInterval(survivors.timer)
      survivors.server.close()
    })
    expect(await alive(refs)).toBe(0)
    expect(survivors.server.listening).toBe(true)
    pending.resolve()
    await promptly(survivors.promise, 'the promise that lived on')
  })

  test('no carried value is reachable through a scope that is kept, though timers of its boundaries live on', async () => {
    const refs: WeakRef<object>[] = []
    const timers: NodeJS.Timeout[] = []
    onTestFinished(() => timers.forEach(clearInterval))
    const scope = new BoundaryScope<object>()
    function operate(): void {
      const [outer, inner] = [{}, {}]
      refs.push(new WeakRef(outer), new WeakRef(inner))
      scope.run(outer, () => scope.run(inner, () => void timers.push(setInterval(idle, 1 << 30))))
    }
    operate()
    expect(await alive(refs, 0, 2)).toBe(2)
    await scope.dispose()
    expect(await alive(refs)).toBe(0)
    expect(() => scope.current()).toThrow('scope is disposed')
  })

  test('a scope is collected though a boundary that was let go never settles', async () => {
    const refs: WeakRef<object>[] = []
    const kept: Promise<unknown>[] = []
    async function operate(): Promise<void> {
      const scope = new BoundaryScope<object>()
      const value = {}
      refs.push(new WeakRef(scope), new WeakRef(value))
      const go = deferred()
      const asked = deferred()
      kept.push(
        scope.run(value, () => {
          void go.promise.then(() => scope.dispose()).then(asked.resolve)
          return new Promise(() => {})
        })
      )
      const disposed = scope.dispose()
      go.resolve()
      await promptly(Promise.all([disposed, asked.promise]), 'disposal from inside')
    }
    await operate()
    expect(await alive(refs)).toBe(0)
    expect(kept.length).toBe(1)
  })

  /**
   * An async function that runs 50 generations and lives on, suspended, while the caller collects. What a generation
   * returns is called in another context, as a reload does it: `disable()` there does not reach the frame of the driver.
   */
  const elsewhere = AsyncResource.bind((end: () => unknown) => end())
  async function drive(generation: () => Promise<() => unknown>): Promise<() => Promise<void>> {
    const outer = new BoundaryScope<string>()
    const [reached, leave] = [deferred(), deferred()]
    const one = async (): Promise<void> => void (await elsewhere(await generation()))
    const driver = outer.run('driver', async () => {
      for (let count = 0; count < 50; count++) await one()
      reached.resolve()
      await leave.promise
      expect(outer.current()).toBe('driver')
    })
    await promptly(reached.promise, '50 generations')
    return () => (leave.resolve(), driver)
  }

  test('50 scopes that one long-lived async function ran are all collected, and so are their storages', async () => {
    const scopes: WeakRef<object>[] = []
    const refs = storages()
    const finish = await drive(async () => {
      const scope = new BoundaryScope<object>()
      scopes.push(new WeakRef(scope))
      scope.run({}, () => 'synchronous')
      expect(() =>
        scope.run({}, () => {
          throw new Error('synchronous')
        })
      ).toThrow()
      await scope.run({}, turn)
      await scope.run({}, () => scope.run(undefined, turn))
      return () => scope.dispose()
    })
    expect(scopes.length).toBe(50)
    expect(refs.length).toBe(51)
    expect(await alive(scopes)).toBe(0)
    expect(await alive(refs, 1)).toBe(1)
    await finish()
  })

  test.skipIf(legacy)(
    'the same rig finds the 50 storages that a plain AsyncLocalStorage leaves in its caller',
    async () => {
      const refs: WeakRef<object>[] = []
      const finish = await drive(async () => {
        const storage = new AsyncLocalStorage<object>()
        refs.push(new WeakRef(storage))
        await storage.run({}, turn)
        return () => storage.disable()
      })
      expect(await alive(refs, 0, 2)).toBeGreaterThan(40)
      await finish()
    }
  )
})

test('a chain of boundaries that each start the next does not keep the settled ones alive', async () => {
  const scope = new BoundaryScope<object>()
  const refs: WeakRef<object>[] = []
  const [reached, leave] = [deferred(), deferred()]
  function link(left: number): void {
    const value = {}
    refs.push(new WeakRef(value))
    void scope.run(value, async () => {
      await turn()
      if (left > 0) return link(left - 1)
      reached.resolve()
      return leave.promise
    })
  }
  link(299)
  await promptly(reached.promise, 'a chain of 300 boundaries')
  // The last ones are looked at only when the next ones come; their number does not grow with the chain.
  expect(await alive(refs, 40)).toBeLessThanOrEqual(40)
  expect(scope.boundaries().length).toBe(1)
  leave.resolve()
  await scope.dispose()
})

test('the async stack trace of a caller is intact, also while a drain is under way', async () => {
  const scope = new BoundaryScope<object>()
  async function innermost(): Promise<never> {
    await turn()
    throw new Error('deep')
  }
  async function theCaller(): Promise<void> {
    await scope.run({}, innermost)
  }
  const plain = theCaller().catch((error: Error) => error.stack)
  expect(await plain).toMatch(/at (async )?innermost/)
  expect(await plain).toMatch(/at (async )?theCaller/)
  const draining = theCaller().catch((error: Error) => error.stack)
  const drained = scope.drain()
  expect(await draining).toMatch(/at (async )?theCaller/)
  await promptly(drained, 'drain')
})

describe('a rejection in a boundary, in a process of its own', () => {
  let folder: string
  const program = `
    import { BoundaryScope } from './scope.mjs'
    const [how, when] = process.argv.slice(2)
    const scope = new BoundaryScope({ name: 'test scope' })
    const seen = []
    let returned
    process.on('unhandledRejection', (reason, promise) => seen.push({ reason: reason.message, same: promise === returned }))
    process.on('rejectionHandled', () => seen.push('handled late'))
    process.on('exit', () => process.stdout.write(JSON.stringify(seen)))
    const fail = async () => { await new Promise(setImmediate); throw new Error('nobody looked') }
    returned = scope.run('a', fail)
    if (how === 'awaited') (async () => { try { await returned } catch {} })()
    if (how === 'caught') returned.catch(() => {})
    if (when === 'draining') scope.drain()
    if (when === 'disposing') scope.dispose()
    if (when === 'listed') { scope.boundaries(); setImmediate(() => setImmediate(() => scope.boundaries())) }
  `

  beforeAll(async () => {
    folder = await mkdtemp(join(tmpdir(), 'scope-'))
    const input = join(import.meta.dirname, '../../plugin/scope.ts')
    await build({
      configFile: false,
      logLevel: 'error',
      build: {
        ssr: input,
        outDir: folder,
        emptyOutDir: false,
        rollupOptions: { output: { entryFileNames: 'scope.mjs' } }
      }
    })
    await writeFile(join(folder, 'program.mjs'), program)
  })
  afterAll(() => rm(folder, { recursive: true }))

  const outcome = async (how: string, when: string): Promise<unknown> => {
    const { stdout } = await promisify(execFile)(process.execPath, [join(folder, 'program.mjs'), how, when], {
      timeout: 4000
    })
    return JSON.parse(stdout)
  }

  test.each(['alone', 'draining', 'disposing', 'listed'])(
    'that floats reaches unhandledRejection with the promise that run() returned, and an awaited or caught one does not: %s',
    async when => {
      const [floating, awaited, caught] = await Promise.all(
        ['floating', 'awaited', 'caught'].map(how => outcome(how, when))
      )
      expect(floating).toEqual([{ reason: 'nobody looked', same: true }])
      expect(awaited).toEqual([])
      expect(caught).toEqual([])
    }
  )
})
