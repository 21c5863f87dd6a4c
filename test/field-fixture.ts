/** Sources for the field cases: providers that write down in `seq` when they come and go. */
import type { ReloadReport } from '../plugin/index.ts'
import type { App } from './app.ts'

/** An entry that applies the default exports of modules, in order. */
export function composing(...modules: string[]): string {
  const imports = modules.map((module, i) => `import P${i} from '${module}'`)
  const applies = modules.map((_, i) => `ctx.plugin(P${i})`)
  return `${imports.join('\n')}\nexport default function harness(ctx: any) {\n${applies.join('\n')}\n}`
}

/** A module with a service; `body` ends its constructor, `head` stands before the class. */
export function service(name: string, body = '', head = ''): string {
  return `
    import { Service } from 'cordis'
    ${head}
    export default class ${name} extends Service {
      version = 1
      constructor(ctx: any, config: any) {
        super(ctx, '${name}')
        const { version } = this
        seq.push('${name} ' + version + ' up')
        ctx.effect(() => () => void seq.push('${name} ' + version + ' down'))
        ${body}
      }
    }`
}

/** The next version of a module made by {@link service}. */
export function bump(source: string): string {
  return source.replace(/version = (\d+)/, (_, version: string) => `version = ${Number(version) + 1}`)
}

/** Resolves with the reports until `done`, and fails when it never is. */
export async function reportsUntil(app: App, done: () => boolean): Promise<ReloadReport[]> {
  const reports = [await app.next('reload')]
  while (!done()) reports.push(await app.next('reload'))
  await app.harness.idle()
  return reports
}
