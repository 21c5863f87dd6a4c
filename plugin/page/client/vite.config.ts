import { fileURLToPath } from 'node:url'
import { defineConfig } from 'vite'

// The live page, as `npm run build` puts it into the package. Relative addresses: it is served under any base.
export default defineConfig({
  root: fileURLToPath(new URL('.', import.meta.url)),
  base: './',
  publicDir: false,
  oxc: { jsx: { runtime: 'automatic', importSource: 'preact' } },
  build: {
    outDir: fileURLToPath(new URL('../../../dist/page/client', import.meta.url)),
    emptyOutDir: true,
    modulePreload: { polyfill: false }
  }
})
