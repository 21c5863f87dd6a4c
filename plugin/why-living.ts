/** What a search through the heap has to know of the harness that runs. */
import type { Running } from './reload.ts'
import type { Named, WhyOptions } from './why.ts'

/** The scripts that run, and the living services by their names. */
export function living({ host, fibers }: Pick<Running, 'host' | 'fibers'>): Pick<WhyOptions, 'running' | 'alive'> {
  return {
    running: host.modules().map(id => `${id}?v=${host.version(host.exports(id))}`),
    alive: [...fibers.all()].flatMap(fiber =>
      fibers.provided(fiber).flatMap(({ name, value }): Named[] => {
        const isObject = typeof value === 'function' || (typeof value === 'object' && value !== null)
        return isObject ? [{ name: `service "${name}"`, ref: new WeakRef(value) }] : []
      })
    )
  }
}
