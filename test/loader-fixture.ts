/** Harnesses that real loaders compose: providers that write down in `seq` when they come and go, and the rows that run. */
import { readFileSync, rmSync, writeFileSync, mkdirSync } from 'node:fs'
import { createRequire } from 'node:module'
import { join } from 'node:path'
import { pathToFileURL } from 'node:url'
import { expect } from 'vitest'
import type { InlineConfig } from 'vite'
import type { Entry, Loader } from '../plugin/cordis/loader.ts'
import { fiberOf } from '../plugin/cordis/loader.ts'
import type { Options } from '../plugin/index.ts'
import { type App, createApp } from './app.ts'

/** The packages of a family of Cordis. */
export interface Family {
  cordis: string
  loader: string
  include: string
  /** What a row of a group names. */
  group: string
  prepare(root: string): void
}

const { resolve } = createRequire(import.meta.url)

/** Both families; of `cordis` no include is published, so the other's runs on its loader: it is the same source. */
export const FAMILIES: Family[] = [
  {
    cordis: '@deepseek-ai/cordis',
    loader: '@deepseek-ai/cordis-plugin-loader',
    include: '@deepseek-ai/cordis-plugin-include',
    group: '@deepseek-ai/cordis-plugin-group',
    prepare() {}
  },
  {
    cordis: 'cordis',
    loader: '@cordisjs/plugin-loader',
    include: '@cordisjs/plugin-include',
    group: '@cordisjs/plugin-group',
    prepare(root) {
      const packages = join(root, 'node_modules')
      for (const name of ['loader', 'include', 'group'])
        rmSync(join(packages, `@deepseek-ai/cordis-plugin-${name}`), { recursive: true, force: true })
      for (const name of ['include', 'group']) {
        const source = readFileSync(resolve(`@deepseek-ai/cordis-plugin-${name}`), 'utf8')
        const folder = join(packages, `@cordisjs/plugin-${name}`)
        mkdirSync(folder, { recursive: true })
        writeFileSync(join(folder, 'package.json'), `{ "type": "module", "main": "index.js" }`)
        const ported = source
          .replaceAll('@deepseek-ai/cordis-plugin-loader', '@cordisjs/plugin-loader')
          .replaceAll('"@deepseek-ai/cordis"', '"cordis"')
        writeFileSync(join(folder, 'index.js'), ported)
      }
    }
  }
]

/** A plugin that says when it comes and goes, and with what. */
export function plugin(name: string, version = 1, { inject = [] as string[], body = '' } = {}): string {
  return `
    export const name = '${name}'
    export const inject = ${JSON.stringify(inject)}
    const VERSION = ${version}
    export function apply(ctx: any, config: any) {
      const say = (text: string) => seq.push('${name} ' + VERSION + ' ' + text)
      ctx.effect(() => () => void say('down'))
      ${body}
      say('up' + (config === undefined ? '' : ' ' + JSON.stringify(config)))
    }`
}

/** A harness that is composed by `cordis.yml`, and what runs of its rows. */
export interface RowsApp extends App {
  /** Saves the file, and resolves with the report and the line that the terminal shows of it. */
  save(file: string, content: string): Promise<{ outcome: string; line: string }>
  rows(): string[]
  read(file: string): string
  entry(id: string): Entry
}

/** Starts a harness whose entry is `cordis.yml`, or another one. */
export async function createRowsApp(
  family: Family,
  files: Record<string, string>,
  options: Partial<Options> = {},
  config: InlineConfig = {}
): Promise<RowsApp> {
  const app = await createApp(files, { entry: 'cordis.yml', ...options }, config, root => {
    family.prepare(root)
    const file = join(root, 'cordis.yml')
    if (files['cordis.yml'])
      writeFileSync(file, files['cordis.yml'].replaceAll('file:///ROOT', pathToFileURL(root).href))
  })
  const loader = () => app.service<Loader>('loader')
  const entries = () => [...loader().entries()]
  return Object.assign(app, {
    read: (file: string) => readFileSync(join(app.root, file), 'utf8'),
    async save(file: string, content: string) {
      const from = app.lines.length
      const report = await app.edit(file, content)
      // What the loader writes, it writes a moment later.
      await app.harness.idle()
      await new Promise(resolve => setTimeout(resolve, 5))
      expect(readFileSync(join(app.root, file), 'utf8')).toBe(content)
      const line = app.lines.slice(from).find(text => /stage|goes? on|back|runs/.test(text)) ?? ''
      return { outcome: report.outcome, line: line.replace('[harness-hmr] ', '').split('  ')[0]! }
    },
    rows: () =>
      entries().flatMap(entry => {
        const fiber = fiberOf(entry)
        const state = entry.disabled ? 'off' : fiber?.state === 2 ? 'on' : `state ${fiber?.state}`
        return entry.subtree ? [] : [`${entry.options.id} ${state}`]
      }),
    entry: (id: string) => entries().find(({ options }) => options.id === id)!
  })
}
