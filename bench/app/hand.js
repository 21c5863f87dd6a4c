import './probe.js'
import { Context } from '@deepseek-ai/cordis'
import './fillers.js'
import driver from './driver.js'
import provider from './provider.js'

globalThis.bench.evaluated++
const root = new Context()
let fiber = await root.plugin(provider)
root.plugin(driver, 1)
root.plugin(driver, 2)

let queue = Promise.resolve()
import.meta.hot.accept('./provider.js', ({ default: provider }) => {
  queue = queue.then(async () => {
    await fiber.dispose()
    fiber = await root.plugin(provider)
  })
})
