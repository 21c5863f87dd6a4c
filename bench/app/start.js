// For what starts the process again, or runs this module again.
import { Context } from '@deepseek-ai/cordis'
import harness from './harness.js'

await globalThis.fiber?.dispose()
globalThis.root ??= new Context()
globalThis.fiber = await globalThis.root.plugin(harness)
