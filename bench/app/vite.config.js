import { harnessHmr } from 'harness-hmr'

export default {
  plugins: [harnessHmr({ entry: 'harness.js', audit: process.env.BENCH_AUDIT !== 'off' })],
  optimizeDeps: { noDiscovery: true },
  server: { host: '127.0.0.1', port: 0 }
}
