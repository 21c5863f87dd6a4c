import './probe.js'
import { Context } from '@deepseek-ai/cordis'
import './fillers.js'
import driver from './driver.js'

globalThis.bench.evaluated++
const root = new Context()
root.plugin(driver, 1)
root.plugin(driver, 2)

let running
let fiber
for (;;) {
  const { default: provider } = await import('./provider.js', import.meta.hot?.boundary)
  if (provider !== running) {
    await fiber?.dispose()
    running = provider
    fiber = await root.plugin(provider)
  }
  await new Promise(resolve => setTimeout(resolve, 1))
}
