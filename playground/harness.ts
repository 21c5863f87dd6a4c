import type { Context } from 'cordis'
import { AgentExecutionProvider } from './providers/agent-execution.ts'
import { AgentLoop } from './providers/agent-loop.ts'
import { AgentRegistry } from './providers/agents.ts'
import { BasicTools } from './providers/basic-tools.ts'
import { consoleLog } from './extras/console-log.ts'
import { JobTools } from './extras/job-tools.ts'
import { JobPool } from './extras/jobs.ts'
import { SimulatedModel } from './providers/llm.ts'
import { Page } from './extras/page.ts'
import { PromptAssembly } from './providers/prompt.ts'
import { Residents, type ResidentsConfig } from './extras/residents.ts'
import { RollCall } from './extras/roll-call.ts'
import { SelfEdit } from './extras/self-edit.ts'
import { SessionLog } from './providers/session-log.ts'
import { SessionStore } from './providers/sessions.ts'
import { Sources } from './extras/sources.ts'
import { ToolRuntime } from './providers/tools.ts'
import { HostTransport, type TransportConfig } from './providers/transport.ts'
import { Visitor } from './extras/visitor.ts'

/** Options of the harness. */
export interface HarnessConfig {
  /** The directory of the session files; in memory without it. */
  sessionsDir?: string
  /** The agents that are there from the first start, with their first prompts. */
  agents?: ResidentsConfig
  /** Milliseconds per token of the simulated model. */
  latency?: number
  /** Milliseconds between two questions of the visitor; 0 keeps it away. */
  visits?: number
  /** The folder whose source files agents may edit; none without it. */
  editable?: string
  /** The folder that their edits are written to, and those of the page, in place of the source files. */
  scratch?: string
  /** Whether to print a line for what happens. */
  log?: boolean
  /** Where the host-aware transport delivers to. */
  deliver?: TransportConfig['deliver']
}

const RESIDENTS: ResidentsConfig = {
  ada: ['What do you know about rivers?', 'use wait 1500 then add 2 3'],
  bo: ['Tell me, slow and in order, what owls do', 'use note buy bread then lookup owls'],
  cy: ['spawn: use lookup tides then wait 500', 'use lookup bridges and add 40 2']
}

const HINT = `
  see  the agents talk on the page at the address above; it has ready-made edits, too
  try  change and save playground/providers/agents.ts while the agents talk: the registry is replaced, they go on
       break it: the old version goes on
       slow them down in playground/providers/llm.ts: what they say next is slower

`

/** Composes a small, complete agent harness on `ctx`. */
export default async function harness(ctx: Context, config: HarnessConfig = {}): Promise<void> {
  const { sessionsDir, agents = RESIDENTS, latency = 40, visits = 4000, log = true, deliver } = config
  const { editable, scratch } = config
  // In memory the lines are the entry's, so that they outlive a reload of the log.
  await ctx.plugin(SessionLog, { dir: sessionsDir, memory: new Map() })
  ctx.plugin(AgentRegistry)
  ctx.plugin(SessionStore)
  ctx.plugin(ToolRuntime)
  ctx.plugin(PromptAssembly)
  ctx.plugin(SimulatedModel, { latency })
  ctx.plugin(BasicTools)
  ctx.plugin(JobPool)
  ctx.plugin(JobTools)
  ctx.plugin(AgentExecutionProvider)
  ctx.plugin(HostTransport, { deliver })
  ctx.plugin(AgentLoop)
  if (editable) {
    ctx.plugin(Sources, { folder: editable, scratch })
    ctx.plugin(SelfEdit)
  }
  ctx.plugin(Page)
  if (log) ctx.plugin(consoleLog, {})
  ctx.plugin(Residents, agents)
  if (visits > 0) ctx.plugin(Visitor, { every: visits })
  ctx.plugin(RollCall)
  if (log) process.stdout.write(HINT)
}
