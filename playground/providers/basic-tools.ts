import { readdir } from 'node:fs/promises'
import { setTimeout } from 'node:timers/promises'
import type { Context } from 'cordis'
import type { Tool } from './tools.ts'

declare module 'cordis' {
  interface Context {
    /** The names of the basic tools; as a service, so that a reload of them is announced by this name. */
    basicTools: readonly string[]
  }
}

const FACTS: Record<string, string> = {
  rivers: 'rivers carry more water underground than above it',
  owls: 'owls cannot move their eyes',
  bridges: 'bridges are longer in summer',
  tides: 'tides slow the day by two milliseconds a century'
}

/** The tools that every agent has. */
export class BasicTools {
  static inject = ['tools', 'agents', 'sessions']

  constructor(ctx: Context) {
    const tools = [add, lookup, wait, note, files, spawnTool(ctx)]
    for (const tool of tools) ctx.tools.register(tool)
    ctx.provide(
      'basicTools',
      tools.map(tool => tool.name)
    )
  }
}

const add: Tool = {
  name: 'add',
  description: 'Adds two numbers.',
  parameters: { a: { type: 'number', description: 'the first' }, b: { type: 'number', description: 'the second' } },
  idempotent: true,
  execute: ({ args }) => `${Number(args.a)} + ${Number(args.b)} = ${Number(args.a) + Number(args.b)}`
}

const lookup: Tool = {
  name: 'lookup',
  description: 'Says what is known about a topic.',
  parameters: { topic: { type: 'string', description: 'one word' } },
  idempotent: true,
  execute: ({ args }) => FACTS[String(args.topic).toLowerCase()] ?? `nothing is known about ${String(args.topic)}`
}

const wait: Tool = {
  name: 'wait',
  description: 'Waits.',
  parameters: { ms: { type: 'number', description: 'milliseconds' } },
  idempotent: true,
  async execute({ args, signal }) {
    await setTimeout(Number(args.ms), undefined, { signal })
    return `waited ${Number(args.ms)} ms`
  }
}

const note: Tool = {
  name: 'note',
  description: 'Writes something down. Each call is one note.',
  parameters: { text: { type: 'string', description: 'what to write down' } },
  async execute({ args, signal }) {
    // Writing takes a moment, and is not to be done twice.
    await setTimeout(20, undefined, { signal })
    return `noted: ${String(args.text)}`
  }
}

const files: Tool = {
  name: 'files',
  description: 'Lists the files in the working directory.',
  parameters: {},
  idempotent: true,
  async execute({ cwd }) {
    const names = await readdir(cwd)
    return names.toSorted().join(' ') || 'no files'
  }
}

/**
 * Gives a task to a child and waits for its answer. The child's id follows from the call, so that the call can be made
 * again at any point: it finds the child and the prompt that are on record. The child ends with the call.
 */
function spawnTool(ctx: Context): Tool {
  const { sessions } = ctx
  return {
    name: 'spawn',
    description: 'Gives a task to a new agent and returns its answer.',
    parameters: { text: { type: 'string', description: 'the task' } },
    idempotent: true,
    yields: true,
    async execute({ agent, callId, args, cwd, signal }) {
      if (!agent) throw new Error('tool "spawn": only an agent can have a child')
      const id = `${agent.id}-${callId}`
      const from = { agentId: agent.id, callId }
      const known = sessions.read(id).length > 0
      // Asked for as the agent: a reload of these tools ends nobody.
      const { agents } = agent.ctx
      const child = await (known ? agents.resume({ id }) : agents.create({ id, parent: from, cwd }))
      return child.prompt(String(args.text), { promptId: 'task', from }).answer(signal)
    }
  }
}

export default BasicTools
