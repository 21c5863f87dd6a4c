/** What Node makes for itself and keeps for the whole process: made or used inside of a boundary, it would keep that. */
import { getServers } from 'node:dns'
import { outside } from '../guard/outside.ts'

/** Makes now what Node makes when it is first needed, outside of every boundary. */
export function makeNodesOwn(): void {
  outside(() => {
    // The resolver that every lookup shares.
    getServers()
    void process.stdout
    void process.stderr
  })
}

interface HttpCommon {
  HTTPParser: { REQUEST: number }
  parsers: { list: { initialize(type: number, resource: object): void }[] }
}

/**
 * On Node 22 with `--experimental-async-context-frame` an idle HTTP parser in Node's pool keeps the context of the last
 * request that it has parsed, until the next: give it another one. Later lines let go by themselves.
 */
export function clearIdleParsers(): void {
  if (!process.execArgv.concat(process.env['NODE_OPTIONS'] ?? '').some(flags => flags.includes(EXPERIMENT))) return
  const common = process.getBuiltinModule('_http_common') as unknown as HttpCommon
  outside(() => {
    for (const parser of common.parsers.list) parser.initialize(common.HTTPParser.REQUEST, {})
  })
}

const EXPERIMENT = '--experimental-async-context-frame'
