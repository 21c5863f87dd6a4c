/** A configuration file as the entry: what composes the harness is a loader that reads it, as `npx cordis` starts one. */
import { dirname, extname } from 'node:path'
import { pathToFileURL } from 'node:url'
import type { Context, Fiber } from '../cordis/cordis.ts'
import { fiberOf, type Loader } from '../cordis/loader.ts'
import type { Host } from '../modules/host.ts'
import { located } from './read.ts'

/** The packages of the two families of Cordis. */
const FAMILIES = [
  {
    cordis: '@deepseek-ai/cordis',
    loader: '@deepseek-ai/cordis-plugin-loader',
    include: '@deepseek-ai/cordis-plugin-include'
  },
  { cordis: 'cordis', loader: '@cordisjs/plugin-loader', include: '@cordisjs/plugin-include' }
]

type Composing = Context & { plugin(plugin: unknown, config: unknown): PromiseLike<unknown> }

/** Whether an entry is a configuration file, and no module. */
export function isConfigFile(file: string): boolean {
  return ['.yml', '.yaml', '.json'].includes(extname(file))
}

/**
 * The plugin that composes the harness of a configuration file.
 * @throws when the packages that read it are not there.
 */
export async function loaderPlugin(
  host: Host,
  file: string
): Promise<(ctx: Context, config: unknown) => Promise<void>> {
  const { cordis, loader, include } = await familyOf(host, file)
  // The Cordis that these run on is the one that the root is made of.
  await host.import(cordis, file)
  const { default: plugin } = await host.import(loader, file)
  return async function harness(ctx, config) {
    await (ctx as Composing).plugin(plugin, { baseUrl: `${pathToFileURL(dirname(file)).href}/` })
    const service = ctx.root.get('loader') as Loader
    // Absolute: not every loader tells an included file where it is.
    const options = { path: pathToFileURL(file).href, ...(config as object | undefined) }
    const id = await service.create({ name: include, config: options })
    await ready(fiberOf(service.store[id]!), include, file)
  }
}

async function ready(fiber: Fiber | undefined, include: string, file: string): Promise<void> {
  if (!fiber) throw new Error(`"${include}" could not be loaded`)
  try {
    await fiber.await()
  } catch (error) {
    throw located(error, file)
  }
}

async function familyOf(host: Host, file: string): Promise<(typeof FAMILIES)[number]> {
  const missing: string[] = []
  for (const family of FAMILIES) {
    const { loader, include } = family
    const absent = []
    for (const name of [loader, include]) if (!(await host.finds(name, file))) absent.push(name)
    if (absent.length === 0) return family
    if (absent.length === 1) missing.push(...absent)
  }
  const [{ loader, include }] = FAMILIES as [(typeof FAMILIES)[number]]
  const wanted = missing.length > 0 ? missing : [loader, include]
  throw new Error(
    `entry "${file}": it is read by packages that are not there. Install them beside it: npm install ${wanted.join(' ')}`
  )
}
