/** The process of a soak: gets its options from the one that started it, and sends progress and the report. */
import { soak, type SoakOptions, type SoakProgress } from './soak.ts'
import type { SoakReport } from './report.ts'

/** What the process sends. */
export type SoakMessage = { progress: SoakProgress } | { report: SoakReport } | { error: string }

const send = (message: SoakMessage) => new Promise<void>(resolve => process.send!(message, () => resolve()))

// Without the one that asked there is nobody to soak for.
process.on('disconnect', () => process.exit(1))
process.once('message', (options: SoakOptions) => {
  soak(options, progress => void send({ progress }))
    .then(
      report => send({ report }),
      (error: unknown) => send({ error: error instanceof Error ? error.message : String(error) })
    )
    // Whatever the harness has left open must not keep it.
    .finally(() => process.exit(0))
})
