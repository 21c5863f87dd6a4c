import { fileURLToPath } from 'node:url'
import { defineConfig } from 'vitest/config'
import { harnessHmr } from './plugin/index.ts'

const plugin = fileURLToPath(new URL('./plugin', import.meta.url))

export default defineConfig({
  root: 'playground',
  resolve: {
    alias: [{ find: /^harness-hmr\/(\w+)$/, replacement: `${plugin}/$1.ts` }]
  },
  plugins: [harnessHmr({ entry: 'harness.ts' })],
  test: {
    root: fileURLToPath(new URL('.', import.meta.url)),
    include: ['test/**/*.test.ts']
  }
})
