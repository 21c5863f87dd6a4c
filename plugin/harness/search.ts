/** Why retired generations are not gone: what is known without a search, then the search through the heap. */
import type { Retired } from '../audit/audit.ts'
import { type Generation, isSameGeneration } from '../audit/creators.ts'
import { isReference } from '../modules/exports.ts'
import type { Running } from '../reload/running.ts'
import type { WhyReport } from '../report/report.ts'
import { scriptName } from '../report/script.ts'
import { type Named, why, type WhyOptions } from '../why/why.ts'

/**
 * Says what keeps generations that have no final verdict: all of them, or `only` one. Audits first, and takes a snapshot
 * of the heap only when an object of theirs is alive: that stops the process for about 30 ms per MB.
 */
export async function whyRetained(
  running: Running,
  options: Pick<WhyOptions, 'root' | 'onProgress' | 'signal'>,
  only?: Generation
): Promise<WhyReport[]> {
  const { auditor } = running
  await auditor.run()
  const retired = auditor.unsettled().filter(of => !only || isSameGeneration(only, of))
  const objects = retired.map(objectsOf)
  const known = { running: scriptsOf(running), alive: servicesOf(running) }
  const { found, ms } =
    objects.flat().length > 0
      ? await why(objects.flat(), { ...known, ...options })
      : { found: [], ms: { total: 0, blocked: 0 } }
  return retired.map((of, i) => {
    const names = new Set(objects[i]!.map(({ name }) => name))
    const left = auditor.leftBy(of).map(retainer => ({ object: 'what it left running', retainer }))
    const { module, name, generation } = of
    return {
      type: 'why',
      module,
      name,
      generation,
      found: [...found.filter(({ object }) => names.has(object)), ...left],
      ms
    }
  })
}

/** What is alive of a generation. */
function objectsOf({ name, generation, instances, storages }: Retired): Named[] {
  const of = `of ${name} ${generation}`
  const objects = instances.flatMap((refs, i) =>
    refs.map((ref, j) => ({ name: `${j === 0 ? 'fiber' : 'service'} ${i + 1} ${of}`, ref }))
  )
  const carriers = storages.map(({ storage }, i) => ({ name: `AsyncLocalStorage ${i + 1} ${of}`, ref: storage }))
  return [...objects, ...carriers].filter(({ ref }) => ref.deref() !== undefined)
}

function scriptsOf({ host }: Running): string[] {
  return host.scripts().map(({ file, version }) => scriptName(file, version))
}

function servicesOf({ fibers }: Running): Named[] {
  return [...fibers.all()].flatMap(fiber =>
    fibers
      .provided(fiber)
      .flatMap(({ name, value }) =>
        isReference(value) ? [{ name: `service "${name}"`, ref: new WeakRef(value) }] : []
      )
  )
}
