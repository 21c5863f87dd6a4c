/** `harness-hmr report`: what whoever mends a fault wants to know, as Markdown for an issue; without paths of yours. */
import { readFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import { homedir } from 'node:os'
import { join } from 'node:path'
import type { Snapshot } from '../page/server/protocol.ts'

/** So many reports and errors are shown, the newest. */
const SHOWN = 5
const PACKAGES = ['harness-hmr', 'vite', 'vite-node', 'cordis', '@deepseek-ai/cordis', 'typescript']

/** The report of a project, with what a running dev server tells where there is one. */
export function bugReport(from: string, told: Snapshot | undefined): string {
  const versions = PACKAGES.map(name => [name, versionOf(name, from)] as const).filter(([, version]) => version)
  const lines = [
    '## Versions',
    '',
    `- node ${process.versions.node}, ${process.platform} ${process.arch}`,
    ...versions.map(([name, version]) => `- ${name} ${version}`),
    ''
  ]
  if (!told) return [...lines, 'No dev server with harness-hmr runs here.'].join('\n')
  const { harness, limits, files, abandoned, audits } = told
  const retained = audits.filter(({ outcome }) => outcome === 'retained').length
  const state = { state: harness.state, modules: harness.modules, limits, dirty: files.dirty, abandoned, retained }
  const parts: [title: string, value: unknown][] = [
    ['Harness', state],
    ['Last reloads', told.reloads.slice(-SHOWN)],
    ['Last errors', [...(harness.failed ? [harness.failed] : []), ...told.errors.slice(-SHOWN)]]
  ]
  for (const [title, value] of parts) {
    // The lines around an error are source text, which may not be foreverybody.
    const json = JSON.stringify(value, (key, part: unknown) => (key === 'frame' ? undefined : part), 2)
    lines.push(`## ${title}`, '', '```json', json, '```', '')
  }
  return withoutPaths(lines.join('\n'), told.root)
}

/** The project's folder and the home are nobody else's business. */
function withoutPaths(text: string, root: string): string {
  return [
    [root, '<root>'],
    [homedir(), '~']
  ].reduce((rest, [path, name]) => rest.replaceAll(path!, name!).replaceAll(path!.replaceAll('/', '\\\\'), name!), text)
}

function versionOf(name: string, from: string): string | undefined {
  // Not by `require('…/package.json')`, which `exports` may hide.
  for (const folder of createRequire(join(from, 'x.js')).resolve.paths(name) ?? []) {
    try {
      const { version } = JSON.parse(readFileSync(join(folder, name, 'package.json'), 'utf8')) as { version: string }
      return version
    } catch {
      // Not there.
    }
  }
  return undefined
}
