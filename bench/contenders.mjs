// How the same app is run by each.
import { join } from 'node:path'
import { folder } from './folder.mjs'

const bin = path => join(folder, 'node_modules', path)

/** By name: the arguments of Node, the package whose version counts, and variables of the environment. */
export const contenders = {
  'harness-hmr': { args: [bin('vite/bin/vite.js')], package: 'harness-hmr' },
  'harness-hmr, no audit': { args: [bin('vite/bin/vite.js')], package: 'harness-hmr', env: { BENCH_AUDIT: 'off' } },
  "Vite's module runner by hand": { args: ['hand-start.js'], package: 'vite' },
  'hot-hook': { args: ['--import=hot-hook/register', 'hot-hook-start.js'], package: 'hot-hook' },
  'cordis-plugin-hmr': {
    args: ['--expose-internals', bin('@deepseek-ai/cordis/bin.js')],
    package: '@deepseek-ai/cordis-plugin-hmr'
  },
  'vite-node --watch': { args: [bin('vite-node/dist/cli.mjs'), '--watch', 'start.js'], package: 'vite-node' },
  'tsx watch': { args: [bin('tsx/dist/cli.mjs'), 'watch', 'start.js'], package: 'tsx' },
  'node --watch': { args: ['--watch', 'start.js'] }
}
