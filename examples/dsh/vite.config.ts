import { harnessHmr } from 'harness-hmr'
import { defineConfig } from 'vite'

// `vite` runs src/harness.ts, and `vite --mode yml` the same composition as rows.
export default defineConfig(({ mode }) => ({
  plugins: [
    harnessHmr({
      entry: mode === 'yml' ? 'cordis.yml' : 'src/harness.ts',
      // Reloaded too, when you edit them in node_modules.
      inline: ['@deepseek-ai/dsh-agent', '@deepseek-ai/dsh-agent-loop']
    })
  ]
}))
