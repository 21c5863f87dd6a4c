import './probe.js'
import './fillers.js'
import driver from './driver.js'
import provider from './provider.js'

globalThis.bench.evaluated++

export default {
  name: 'harness',
  apply(ctx) {
    ctx.plugin(provider)
    ctx.plugin(driver, 1)
    ctx.plugin(driver, 2)
  }
}
