/** Who provides: from a module to its live instances, its generation and its name. The one place to ask. */
import { basename, extname } from 'node:path'
import type { Host } from '../modules/host.ts'
import type { Fiber } from './cordis.ts'
import type { Fibers, Instance } from './fibers.ts'

/** A module as a provider. */
export interface Provider {
  /** Its id: an absolute path, mostly. */
  module: string
  /** The service that it provides, else its plugin's name, else its file's. */
  name: string
  /** How often it was evaluated when its running version was; 0 for one that does not run. */
  generation: number
  /** Oldest first, with the places of those that are vacant; none for a module that is no provider now. */
  instances: Instance[]
}

/** The providers of one harness. */
export class Providers {
  readonly #host: Host
  readonly #fibers: Fibers

  constructor(host: Host, fibers: Fibers) {
    this.#host = host
    this.#fibers = fibers
  }

  /** What a module is now. */
  of(module: string): Provider {
    const exports = this.#host.exports(module)
    const instances = this.#fibers.instances(module, exports && this.#host.ownExports(module))
    return {
      module,
      name: this.nameOf(module, instances[0]?.fiber),
      generation: this.#host.version(exports),
      instances
    }
  }

  /** What a module is called, and one of its fibers if there is one. */
  nameOf(module: string, fiber: Fiber | undefined): string {
    return (fiber && this.#fibers.nameOf(fiber)) || basename(module, extname(module))
  }

  /** What a fiber is called as an instance of a provider, e.g. `"agents 4"`; nothing for one of no module that runs. */
  titleOf(fiber: Fiber): string | undefined {
    const module = this.#host.definer(this.#fibers.pluginOf(fiber))
    if (module === undefined) return undefined
    return `${this.nameOf(module, fiber)} ${this.#host.version(this.#host.exports(module))}`
  }

  /** The modules that have instances now, in the order of the composition; the cost grows with the fibers, not with the modules. */
  all(): Provider[] {
    const modules = new Set<string>()
    for (const fiber of this.#fibers.inOrder()) {
      const module = this.#host.definer(this.#fibers.pluginOf(fiber))
      if (module !== undefined) modules.add(module)
    }
    return [...modules].map(module => this.of(module)).filter(({ instances }) => instances.length > 0)
  }
}
