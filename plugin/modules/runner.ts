/** vite-node's runner, taught what this package needs of it. */
import vm from 'node:vm'
import { ViteNodeRunner } from 'vite-node/client'
import { normalizeModuleId } from 'vite-node/utils'
import { read } from '../guard/contain.ts'
import type { Exports } from './exports.ts'
import { resolveImport } from './import-meta.ts'

/** What a runner is made of. */
export interface RunnerParts {
  evaluated(file: string, exports: Exports): void
  options: ConstructorParameters<typeof ViteNodeRunner>[0]
  builtin(specifier: string): Exports | undefined
  env: Record<string, unknown>
  nameScript(file: string, code: string, exports: Exports): { name: string; code: string }
}

/** vite-node's runner, with a name per version, with Vite's and Node's `import.meta`, and with the ledger's AsyncLocalStorage. */
export class Runner extends ViteNodeRunner {
  readonly #parts: RunnerParts

  constructor(parts: RunnerParts) {
    super(parts.options)
    this.#parts = parts
  }

  override prepareContext(context: Record<string, any>): Record<string, any> {
    const { builtin, env } = this.#parts
    const { __vite_ssr_import__: load, __vite_ssr_dynamic_import__: loadLate, require } = context
    context['__vite_ssr_import__'] = async (specifier: string) => builtin(specifier) ?? load(specifier)
    context['__vite_ssr_dynamic_import__'] = async (specifier: unknown) =>
      builtin(String(specifier)) ?? loadLate(specifier)
    context['require'] = Object.assign(
      (specifier: string) => builtin(specifier)?.['default'] ?? require(specifier),
      require
    )
    const meta = context['__vite_ssr_import_meta__']
    // A version is no URL of its own: `?v=` is in names of scripts only.
    const resolve = (specifier: unknown) => resolveImport(String(specifier), meta.filename)
    Object.assign(meta, { env, main: false, resolve })
    return context
  }

  override async runModule(context: Record<string, any>, transformed: string): Promise<void> {
    const file = normalizeModuleId(context['__filename'])
    const exports = context['__vite_ssr_exports__']
    const { name, code } = this.#parts.nameScript(file, transformed, exports)
    // Two functions: a module may declare `__filename` itself, and a heap snapshot names the variables of a function's
    // scope, not those of a block's.
    const head = `'use strict';(${Object.keys(context).join(',')})=>async()=>{`
    const run = vm.runInThisContext(`${head}${code}\n}`, { filename: name, columnOffset: -head.length })
    await run(...Object.values(context))()
    nameDefault(exports)
    this.#parts.evaluated(file, exports)
  }
}

/** Gives a default export that has no name the one that Node gives it, instead of that of Vite's variable. */
function nameDefault(exports: Exports): void {
  const value = read(exports, 'default')
  if (typeof value !== 'function' || read(value, 'name') !== '__vite_ssr_export_default__') return
  Object.defineProperty(value, 'name', { value: 'default', configurable: true })
}
