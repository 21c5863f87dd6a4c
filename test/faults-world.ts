/** The harness that faults are injected into: providers that share leaves, and a worker that answers prompts meanwhile. */
import { turn } from './promptly.ts'

/** The places where a new version may fail. */
export const FAULTS = ['syntax', 'evaluation', 'await', 'constructor', 'init', 'schema'] as const
export type Fault = (typeof FAULTS)[number]

/** What a version that runs may do to those around it, most of it while it goes. */
export const QUIRKS = ['hang', 'throw', 'reject', 'late', 'label', 'getter'] as const
export type Quirk = (typeof QUIRKS)[number]

/** The source of provider `p<index>`; half of them also use the service of the one before. */
export function providerSource(index: number, version: number, fault?: Fault | Quirk): string {
  const fails = (place: Fault) => (fault === place ? `throw new Error('${place} of p${index}')` : '')
  return `
    import { Service } from 'cordis'
    import { BoundaryScope } from 'harness-hmr/scope'
    import { leaf } from './l${index % 3}.ts'
    world.reach('stage')
    ${fails('evaluation')}
    ${fault === 'await' ? 'await new Promise(() => {})' : ''}
    ${fault === 'getter' ? `export const client = new Proxy({}, { get() { throw new Error('getter of p${index}') } })` : ''}
    export default class P${index} extends Service {
      static inject = ${JSON.stringify(index % 2 ? [`p${index - 1}`] : [])}
      static Config = { '~standard': { version: 1, vendor: 'test', validate: value =>
        ${fault === 'schema' ? `({ issues: [{ message: 'schema of p${index}' }] })` : '({ value })'} } }
      constructor(ctx) {
        super(ctx, 'p${index}')
        world.reach('install')
        ${fails('constructor')}
        const life = world.up(${index}, ${version}, leaf)
        ctx.effect(() => async () => {
          world.reach('drain')
          ${fault === 'hang' ? 'life.hangs = true\n await world.gate' : ''}
          world.down(life)
          ${fault === 'throw' || fault === 'reject' ? `throw new Error('disposer of p${index}')` : ''}
          ${fault === 'late' ? `if (!world.isEnding) setTimeout(() => { throw new Error('p${index} after its end') })` : ''}
        })
        ${fault === 'throw' ? `ctx.effect(() => () => { throw new Error('disposer of p${index}') })` : ''}
        ${
          fault === 'label'
            ? `const scope = new BoundaryScope({ label: () => { throw new Error('label of p${index}') } })\n scope.run({}, () => new Promise(resolve => setTimeout(resolve, 40)))\n ctx.effect(() => () => scope.dispose())`
            : ''
        }
      }
      async [Service.init]() {
        await null
        ${fails('init')}
      }
      ${fault === 'syntax' ? 'syntax = = error' : ''}
    }`
}

export function leafSource(version: number): string {
  return `export const leaf = ${version}`
}

/** The files of a harness of so many providers and leaves. */
export function harnessFiles(providers: number, leaves: number): Record<string, string> {
  const indices = Array.from({ length: providers }, (_, i) => i)
  const files: Record<string, string> = {
    'harness.ts': `
      import Worker from './worker.ts'
      ${indices.map(i => `import P${i} from './p${i}.ts'`).join('\n')}
      export default function harness(ctx) {
        ctx.on('harness-hmr/before-reload', () => world.reach('close'))
        ${indices.map(i => `ctx.plugin(P${i})`).join('\n')}
        ctx.plugin(Worker)
      }`,
    'worker.ts': `
      export default class Worker {
        static inject = ['p0', 'p5']
        constructor(ctx) {
          let stopped = false
          const drive = async () => {
            while (!stopped) {
              await (world.work() || world.rest())
            }
          }
          const driving = drive()
          ctx.effect(() => async () => {
            stopped = true
            world.wake()
            await driving
          })
        }
      }`
  }
  for (const i of indices) files[`p${i}.ts`] = providerSource(i, 1)
  for (let i = 0; i < leaves; i++) files[`l${i}.ts`] = leafSource(1)
  return files
}

interface Life {
  index: number
  version: number
  leaf: number
  hangs: boolean
}

/** What the providers tell, and what they wait for; global in the modules of the harness. */
export class World {
  readonly prompts: number[] = []
  readonly answers: number[] = []
  readonly overlaps: string[] = []
  gate: Promise<void>
  /** Whether the harness goes: what its code throws after that is Node's to say. */
  isEnding = false
  readonly #size: number
  readonly #lives = new Set<Life>()
  #open!: () => void
  #wake = () => {}
  #changed = () => {}
  #step: { name: string; then: () => void } | undefined

  constructor(size: number) {
    this.#size = size
    this.gate = new Promise(resolve => (this.#open = resolve))
  }

  up(index: number, version: number, leaf: number): Life {
    const others = [...this.#lives].filter(life => life.index === index && !life.hangs)
    if (others.length > 0) this.overlaps.push(`p${index} v${version} beside v${others[0]!.version}`)
    const life = { index, version, leaf, hangs: false }
    this.#lives.add(life)
    this.#changed()
    return life
  }

  down(life: Life): void {
    this.#lives.delete(life)
    this.#changed()
  }

  /** The code has come to a step of a reload. */
  reach(step: string): void {
    if (this.#step?.name !== step) return
    const { then } = this.#step
    this.#step = undefined
    then()
  }

  /** Calls `then` the next time that a reload comes to `step`. */
  at(name: string, then: () => void): void {
    this.#step = { name, then }
  }

  /** Forgets the step that was waited for. */
  skip(): void {
    this.#step = undefined
  }

  /** A prompt for the worker. */
  ask(): void {
    this.prompts.push(this.prompts.length)
    this.#wake()
  }

  /** Answers the next prompt in a while; false when there is none. */
  work(): Promise<boolean> | false {
    if (this.answers.length === this.prompts.length) return false
    return turn().then(() => {
      this.answers.push(this.answers.length)
      this.#changed()
      return true
    })
  }

  rest(): Promise<void> {
    return new Promise(resolve => (this.#wake = resolve))
  }

  wake(): void {
    this.#wake()
  }

  /** Version and leaf of the live instance of each provider. */
  running(): [version: number, leaf: number][] {
    return Array.from({ length: this.#size }, (_, index) => {
      const [life, ...more] = [...this.#lives].filter(live => live.index === index && !live.hangs)
      if (!life || more.length > 0) throw new Error(`p${index} has ${life ? more.length + 1 : 0} live instances`)
      return [life.version, life.leaf]
    })
  }

  /** The versions of files that run. */
  versions(): Map<string, number> {
    const versions = new Map<string, number>()
    for (const { index, version, leaf, hangs } of this.#lives) {
      if (hangs) continue
      versions.set(`p${index}.ts`, version)
      versions.set(`l${index % 3}.ts`, leaf)
    }
    return versions
  }

  /** Lets every hanging disposer end. */
  letGo(): void {
    this.#open()
  }

  /** The live instances, in words. */
  describe(): string {
    const lives = [...this.#lives].map(({ index, version, hangs }) => `p${index} v${version}${hangs ? ' hangs' : ''}`)
    return lives.toSorted().join(', ')
  }

  answered(): Promise<void> {
    return this.#until(() => this.answers.length === this.prompts.length)
  }

  /** Resolves when there is one instance of each provider and none beside. */
  single(): Promise<void> {
    return this.#until(() => this.#lives.size === this.#size)
  }

  async #until(condition: () => boolean): Promise<void> {
    while (!condition()) await new Promise<void>(resolve => (this.#changed = resolve))
  }
}
