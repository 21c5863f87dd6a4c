/** Keys in the terminal, beside Vite's own: `l` lists the providers, `a` audits, `w` asks why, `x` lets a reload go on that waits. */
import colors from 'picocolors'
import type { CLIShortcut, ViteDevServer } from 'vite'
import type { Harness } from '../harness/harness.ts'
import { abandoned } from '../page/server/commands.ts'
import { overview } from '../page/server/overview.ts'
import type { FiberNode } from '../page/server/protocol.ts'
import { plural } from '../report/report.ts'

type Shortcut = CLIShortcut<ViteDevServer>

/** Adds the keys to those that Vite's command binds when its server listens. */
export function addShortcuts(server: ViteDevServer, harnessOf: (server: ViteDevServer) => Harness | undefined): void {
  const { bindCLIShortcuts } = server
  const ours = shortcuts(harnessOf)
  server.bindCLIShortcuts = options => {
    const customShortcuts = [...((options?.customShortcuts ?? []) as Shortcut[]), ...ours]
    bindCLIShortcuts({ ...options, customShortcuts })
  }
}

/** A restart keeps the keys that were bound first: they look for the harness when they are pressed. */
function shortcuts(harnessOf: (server: ViteDevServer) => Harness | undefined): Shortcut[] {
  const key = (key: string, description: string, action: (harness: Harness) => string[] | Promise<string[]>) => ({
    key,
    description,
    async action(server: ViteDevServer) {
      const harness = harnessOf(server)
      const lines = harness ? await action(harness) : ['no harness runs']
      for (const line of lines) server.config.logger.info(`${colors.cyan('[harness-hmr]')} ${line}`)
    }
  })
  return [
    key('l', 'list the providers of the harness', providerLines),
    key('a', 'audit what reloads have retired', audit),
    key('w', 'search the heap for what keeps a retired generation', why),
    key('x', 'let a reload go on that waits', harness => [abandoned(harness) ?? 'no reload waits'])
  ]
}

/** The tree of fibers, and what is open. */
export function providerLines({ running, state }: Pick<Harness, 'running' | 'state'>): string[] {
  if (!running) return [`the harness is ${state}`]
  const { fibers, boundaries, storages } = overview(running)
  const lines = ['providers']
  const list = (nodes: FiberNode[], indent: string) => {
    for (const node of nodes) {
      lines.push(`\n${indent}${nodeLine(node)}`)
      list(node.children, `${indent}  `)
    }
  }
  list(fibers, '  ')
  const alive = storages.reduce((sum, group) => sum + group.storages, 0)
  const open = boundaries.total === 1 ? '1 open boundary' : `${boundaries.total} open boundaries`
  return [lines.join(''), `${open}, ${plural(alive, 'live storage')}`]
}

function nodeLine({ name, generation, states, waitsFor }: FiberNode): string {
  const count = Object.values(states).reduce((sum, n) => sum + n, 0)
  const odd = Object.entries(states).flatMap(([state, n]) =>
    state === 'active' ? [] : [count > 1 ? `${n} ${state}` : state]
  )
  return [
    colors.bold(generation === undefined ? name : `${name} ${generation}`),
    count > 1 ? `×${count}` : '',
    odd.length > 0 ? colors.yellow(odd.join(', ')) : '',
    waitsFor.length > 0 ? colors.dim(`waits for ${waitsFor.join(', ')}`) : ''
  ]
    .filter(Boolean)
    .join('  ')
}

async function audit(harness: Harness): Promise<string[]> {
  await harness.audit()
  const kept = [...harness.history.audits.values()].filter(({ outcome }) => outcome !== 'collected')
  return [
    kept.length === 0 ? 'nothing of a retired generation is left' : `${kept.length} of the retired are not collected`
  ]
}

async function why(harness: Harness): Promise<string[]> {
  const reports = await harness.why()
  return reports.length === 0 ? ['nothing of a retired generation is left'] : []
}
