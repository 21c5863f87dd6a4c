/** On whose behalf something is created: the modules on the stack, and which of them it belongs to. */
import { type Script, scriptAt, sitesOnStack } from '../report/script.ts'

/** One generation of a module. */
export interface Generation {
  /** Absolute path. */
  module: string
  generation: number
}

/** Tells from the current stack which generation a storage, a timer or a server belongs to. */
export class Creators {
  readonly #isOurs: (script: Script) => boolean
  /** Whether a module has ever had live plugins. */
  readonly isProvider: (module: string) => boolean

  /** `isOurs` is true for what the harness has evaluated, `isProvider` for modules that have had live plugins. */
  constructor(isOurs: (script: Script) => boolean, isProvider: (module: string) => boolean) {
    this.#isOurs = isOurs
    this.isProvider = isProvider
  }

  /** The harness' scripts on the current stack, innermost first. */
  onStack(): Script[] {
    return this.among(sitesOnStack())
  }

  /**
   * Those among the sites of a stack, without go-betweens: what a module does in a callback that it had run inside of a
   * storage, `agents.run(agent, () => this.loop())`, is not done for the module that has the storage.
   */
  among(sites: NodeJS.CallSite[]): Script[] {
    const found: Script[] = []
    let calledBack: { file: string; at: number } | undefined
    for (const site of sites) {
      const script = scriptAt(site)
      const last = found.at(-1)
      if (!script && last && isRun(site)) calledBack = { file: last.file, at: found.length }
      if (!script || !this.#isOurs(script)) continue
      if (script.file === calledBack?.file) {
        found.length = calledBack.at
        calledBack = undefined
      }
      found.push(script)
    }
    return found
  }

  /** Whether something was created on behalf of a generation. */
  isBy(creators: readonly Script[], generation: Generation): boolean {
    const owner = this.ownerOf(creators)
    return owner !== undefined && isSameGeneration(owner, generation)
  }

  /**
   * The nearest provider module, not the library module that happens to say `new`. Asked late: a module is known to be a
   * provider's when its plugin is applied, which may be after it has created something.
   */
  ownerOf(creators: readonly Pick<Script, 'file' | 'version'>[]): Generation | undefined {
    const owner = creators.find(({ file }) => this.isProvider(file)) ?? creators[0]
    return owner && { module: owner.file, generation: owner.version }
  }
}

/** Whether two are the same generation of one module. */
export function isSameGeneration(a: Generation, b: Generation): boolean {
  return a.module === b.module && a.generation === b.generation
}

/** One string per generation of a module. */
export function generationKey({ module, generation }: Generation): string {
  return `${module} ${generation}`
}

/** Whether a site is in an AsyncLocalStorage's `run`; every scope comes to that. */
function isRun(site: NodeJS.CallSite): boolean {
  return site.getFunctionName() === 'run' && OF_STORAGES.test(site.getFileName() ?? '')
}

const OF_STORAGES = /^node:(async_hooks$|internal\/async_local_storage\/)/
