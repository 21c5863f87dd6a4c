/** `harness-hmr why`: asks a running dev server for the search through its heap. */
import type { Task } from '../page/server/protocol.ts'
import type { WhyReport } from '../report/report.ts'
import { connect } from './server.ts'

/** What it found, and the root that its paths are below. */
export interface Whys {
  root: string
  whys: WhyReport[]
}

/**
 * Resolves with one report for each generation that is kept.
 * @throws when no dev server with the plugin answers at `url`, and what it answers when it cannot search.
 */
export async function askWhy(
  url: string,
  { signal, progress }: { signal: AbortSignal; progress(task: Task): void }
): Promise<Whys> {
  const whys: WhyReport[] = []
  let told: () => void = () => {}
  const isTold = new Promise<void>(resolve => (told = resolve))
  const server = await connect(url, {
    signal,
    changed: ({ task, lists }) => {
      if (task) progress(task)
      whys.push(...(lists?.whys ?? []))
      if (whys.length > 0) told()
    }
  })
  try {
    // What was found comes before the answer or soon after it.
    if ((await server.ask({ do: 'why' })).startsWith('searched')) await isTold
    return { root: server.snapshot.root, whys }
  } finally {
    server.close()
  }
}
