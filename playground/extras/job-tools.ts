import { setTimeout } from 'node:timers/promises'
import type { Context } from 'cordis'
import type { Agent } from '../providers/agents.ts'
import type { JobPool } from './jobs.ts'
import type { Tool } from '../providers/tools.ts'

declare module 'cordis' {
  interface Context {
    /** The names of the job tools; as a service, so that a reload of them is announced by this name. */
    jobTools: readonly string[]
  }
}

/** The tools that start, read and kill jobs. They may be reloaded while a job goes on. */
export class JobTools {
  static inject = ['tools', 'jobs']

  constructor(ctx: Context) {
    const tools = [startTool(ctx.jobs), readTool(ctx.jobs), killTool(ctx.jobs)]
    for (const tool of tools) ctx.tools.register(tool)
    ctx.provide(
      'jobTools',
      tools.map(tool => tool.name)
    )
  }
}

/** The job's id is that of the call, so that the call can be made again: it finds the job that it has started. */
function startTool(jobs: JobPool): Tool {
  return {
    name: 'job-start',
    description: 'Starts a job that says something later. Returns its id at once.',
    parameters: {
      ms: { type: 'number', description: 'milliseconds until then' },
      text: { type: 'string', description: 'what it says' }
    },
    idempotent: true,
    execute({ agent, callId, args }) {
      const say = async ({ signal }: { signal: AbortSignal }) => {
        await setTimeout(Number(args.ms), undefined, { signal })
        return String(args.text)
      }
      const { id, state } = jobs.start({ owner: ownerOf(agent), id: callId, run: say })
      return `job ${id} ${state}`
    }
  }
}

function readTool(jobs: JobPool): Tool {
  return {
    name: 'job-read',
    description: 'Says how a job of yours stands.',
    parameters: { id: { type: 'string', description: 'the id of the job' } },
    idempotent: true,
    execute({ agent, args }) {
      const { id, state, output } = jobs.read(ownerOf(agent), String(args.id))
      return `job ${id} ${state}${output && `: ${output}`}`
    }
  }
}

function killTool(jobs: JobPool): Tool {
  return {
    name: 'job-kill',
    description: 'Kills a job of yours.',
    parameters: { id: { type: 'string', description: 'the id of the job' } },
    idempotent: true,
    async execute({ agent, args }) {
      const owner = ownerOf(agent)
      jobs.kill(owner, String(args.id))
      const { id, state } = jobs.read(owner, String(args.id))
      return `job ${id} ${state === 'running' ? 'is being killed' : state}`
    }
  }
}

/** From the execution, where it is explicit; never from an argument, and never from who happens to run. */
function ownerOf(agent: Agent | undefined): string {
  if (!agent) throw new Error('only an agent can own a job')
  return agent.session.id
}

export default JobTools
