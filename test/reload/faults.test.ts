import { existsSync, renameSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import * as fc from 'fast-check'
import { expect, test } from 'vitest'
import type { Harness } from '../../plugin/harness/harness.ts'
import type { ReloadReport } from '../../plugin/index.ts'
import { type App, createApp } from '../fixtures/app.ts'
import {
  FAULTS,
  type Fault,
  harnessFiles,
  leafSource,
  providerSource,
  QUIRKS,
  type Quirk,
  World
} from '../fixtures/faults-world.ts'
import { harnessOf } from '../../plugin/vite/api.ts'
import { promptly } from '../promptly.ts'

const PROVIDERS = 12
const LEAVES = 3
const STEPS = ['stage', 'close', 'drain', 'install'] as const

type Op =
  | { kind: 'save' | 'delete' | 'recreate' | 'rename'; provider: number }
  | { kind: 'quirk'; provider: number; quirk: Quirk }
  | { kind: 'leaf'; leaf: number }
  | { kind: 'fault'; provider: number; fault: Fault }
  | { kind: 'double'; provider: number; gap: number }
  | { kind: 'during'; provider: number; step: (typeof STEPS)[number]; other: number }
  | { kind: 'restart' }

const provider = fc.nat(PROVIDERS - 1)
const ops: fc.Arbitrary<Op> = fc.oneof(
  { weight: 4, arbitrary: fc.record({ kind: fc.constant('save' as const), provider }) },
  { weight: 2, arbitrary: fc.record({ kind: fc.constant('leaf' as const), leaf: fc.nat(LEAVES - 1) }) },
  {
    weight: 5,
    arbitrary: fc.record({ kind: fc.constant('fault' as const), provider, fault: fc.constantFrom(...FAULTS) })
  },
  {
    weight: 2,
    arbitrary: fc.record({ kind: fc.constantFrom('delete' as const, 'recreate', 'rename'), provider })
  },
  {
    weight: 4,
    arbitrary: fc.record({ kind: fc.constant('quirk' as const), provider, quirk: fc.constantFrom(...QUIRKS) })
  },
  { weight: 3, arbitrary: fc.record({ kind: fc.constant('double' as const), provider, gap: fc.nat(60) }) },
  {
    weight: 3,
    arbitrary: fc.record({
      kind: fc.constant('during' as const),
      provider,
      step: fc.constantFrom(...STEPS),
      other: provider
    })
  },
  { weight: 1, arbitrary: fc.constant({ kind: 'restart' as const }) }
)

/** One harness under a sequence of saves, and what has to run after it. */
class Run {
  readonly app: App
  readonly world: World
  readonly #reports: ReloadReport[] = []
  readonly #expected = new Map<string, number>()
  /** Files whose content on disk is not what has to run. */
  readonly #broken = new Set<string>()
  #version = 1
  #told = () => {}

  constructor(app: App, world: World) {
    this.app = app
    this.world = world
    for (let i = 0; i < PROVIDERS; i++) this.#expected.set(`p${i}.ts`, 1)
    for (let i = 0; i < LEAVES; i++) this.#expected.set(`l${i}.ts`, 1)
    this.#listen()
  }

  get harness(): Harness {
    return harnessOf(this.app.server.config.plugins.find(({ name }) => name === 'harness-hmr'))!
  }

  async apply(op: Op): Promise<void> {
    for (let i = 0; i < 3; i++) this.world.ask()
    switch (op.kind) {
      case 'save':
        return this.#until(this.#good(op.provider))
      case 'leaf': {
        const file = `l${op.leaf}.ts`
        this.#note(file)
        this.app.write(file, leafSource(this.#version))
        return this.#until(file)
      }
      case 'fault': {
        const file = `p${op.provider}.ts`
        this.#broken.add(file)
        this.app.write(file, providerSource(op.provider, ++this.#version, op.fault))
        return this.#until(file)
      }
      case 'quirk': {
        const file = `p${op.provider}.ts`
        this.#note(file)
        this.app.write(file, providerSource(op.provider, this.#version, op.quirk))
        return this.#until(file)
      }
      case 'delete': {
        const file = `p${op.provider}.ts`
        if (!existsSync(join(this.app.root, file))) return
        this.#broken.add(file)
        rmSync(join(this.app.root, file), { force: true })
        return this.#until(file)
      }
      case 'recreate': {
        rmSync(join(this.app.root, `p${op.provider}.ts`), { force: true })
        return this.#until(this.#good(op.provider))
      }
      case 'rename': {
        const file = `p${op.provider}.ts`
        this.#note(file)
        this.app.write(`${file}.tmp`, providerSource(op.provider, this.#version))
        renameSync(join(this.app.root, `${file}.tmp`), join(this.app.root, file))
        return this.#until(file)
      }
      case 'double': {
        this.#good(op.provider)
        await new Promise(resolve => setTimeout(resolve, op.gap))
        return this.#until(this.#good(op.provider))
      }
      case 'during': {
        let other: string | undefined
        this.world.at(op.step, () => (other = this.#good(op.other)))
        await this.#until(this.#good(op.provider))
        // A step that this reload does not reach (the file was broken by another) does not come.
        this.world.skip()
        if (other) await this.#until(other)
        return
      }
      case 'restart': {
        // With a broken file there would be no old version to go on with.
        if (this.#broken.size > 0) return
        const before = this.harness
        this.world.isEnding = true
        await this.app.server.restart()
        this.world.isEnding = false
        if (this.harness !== before) await this.#booted()
        return
      }
      default:
        return op satisfies never
    }
  }

  /** Mends everything, lets go of what hangs, and looks at the world. */
  async check(): Promise<void> {
    this.world.letGo()
    await this.harness.idle()
    await promptly(this.world.single(), 'no instance left behind').catch((error: unknown) => {
      throw new Error(this.world.describe(), { cause: error })
    })
    this.#compare('after the sequence')
    for (const file of this.#broken) await this.#until(this.#good(Number(file.slice(1, -3))))
    this.#compare('after every file was mended')
    await promptly(this.world.answered(), 'every prompt answered')
    expect(this.world.answers).toEqual(this.world.prompts)
    expect(this.world.overlaps).toEqual([])
    await promptly(this.world.single(), 'no instance left behind')
    // The providers, the worker, and the harness itself.
    expect([...this.harness.running!.fibers.all()].map(({ name }) => name)).toHaveLength(PROVIDERS + 2)
  }

  #compare(when: string): void {
    const running = this.world.running()
    for (let i = 0; i < PROVIDERS; i++) {
      const expected = [this.#expected.get(`p${i}.ts`), this.#expected.get(`l${i % LEAVES}.ts`)]
      expect(running[i], `p${i} ${when}`).toEqual(expected)
    }
  }

  #note(file: string): void {
    this.#broken.delete(file)
    this.#expected.set(file, ++this.#version)
  }

  #good(index: number): string {
    const file = `p${index}.ts`
    this.#note(file)
    this.app.write(file, providerSource(index, this.#version))
    return file
  }

  /** Resolves when the newest content of a file has been looked at and nothing is under way. */
  async #until(file: string): Promise<void> {
    const isDone = () => {
      if (!this.#broken.has(file)) return this.world.versions().get(file) === this.#expected.get(file)
      return this.#reports.some(({ cause }) => cause.some(path => path.endsWith(`/${file}`)))
    }
    this.#reports.length = 0
    while (!isDone()) {
      await promptly(new Promise<void>(resolve => (this.#told = resolve)), `${file} looked at`, 5000)
    }
    await this.harness.idle()
  }

  #listen(): void {
    this.harness.listen({
      reload: report => {
        this.#reports.push(report)
        this.#told()
      }
    })
  }

  async #booted(): Promise<void> {
    this.#listen()
    await promptly(new Promise<void>(resolve => this.harness.listen({ ready: () => resolve() })), 'boot after restart')
  }
}

/** The same each time, unless another is asked for; CI asks for a random one, and prints it. */
function seed(): number {
  return Number(process.env['RANDOM_SEED'] ?? 20_26)
}

test('any sequence of saves and faults ends with one live instance of the newest valid content of every file', async () => {
  await fc.assert(
    fc.asyncProperty(fc.array(ops, { minLength: 3, maxLength: 8 }), async sequence => {
      const world = new World(PROVIDERS)
      Object.assign(globalThis, { world })
      const app = await createApp(harnessFiles(PROVIDERS, LEAVES), { warnAfter: 20, deadline: 60, grace: 50 })
      await app.next('ready')
      const run = new Run(app, world)
      try {
        const play = async () => {
          for (const op of sequence) await run.apply(op)
          await run.check()
        }
        await promptly(play(), 'the whole sequence', 30_000)
      } finally {
        world.isEnding = true
        await promptly(app.close(), 'the dev server to close', 10_000)
      }
    }),
    {
      numRuns: Number(process.env['FAULT_SEQUENCES'] ?? 20),
      endOnFailure: true,
      seed: seed(),
      path: process.env['FAULT_PATH']
    }
  )
}, 600_000)
