import { availableParallelism } from 'node:os'
import { fileURLToPath } from 'node:url'
import { defineConfig } from 'vitest/config'
import { scratch } from './playground/scratch.ts'
import { harnessHmr } from './plugin/index.ts'

const here = (path: string) => fileURLToPath(new URL(path, import.meta.url))

// The playground's dev server, and the tests: `npm run dev` and `npm test`.
export default defineConfig({
  root: here('./playground'),
  resolve: {
    alias: { 'harness-hmr/scope': here('./plugin/scope.ts') }
  },
  plugins: [
    scratch(here('./playground/.scratch')),
    harnessHmr({
      entry: 'harness.ts',
      // What a planted leak has left running is named on every Node line.
      trace: true,
      config: {
        sessionsDir: here('./playground/.sessions'),
        editable: here('./playground'),
        scratch: here('./playground/.scratch')
      }
    })
  ],
  // The page's one dependency is a module already: nothing to bundle before the page can open.
  optimizeDeps: { noDiscovery: true },
  server: {
    // No other site shows the page in a frame, where it could lead a click astray.
    headers: { 'Content-Security-Policy': "frame-ancestors 'self'" },
    watch: { ignored: ['**/.sessions/**'] }
  },
  test: {
    root: here('.'),
    include: ['test/**/*.test.ts'],
    // Most tests wait most of the time: for a verdict, a child process, a page.
    maxWorkers: Math.max(3, availableParallelism() - 1),
    testTimeout: 20_000,
    // Lines are compared as text, also on a CI server, which asks for colors.
    env: { NO_COLOR: '1' }
  }
})
