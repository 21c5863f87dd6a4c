import type { ToolSchema } from '../tools.ts'

/** A tool call that a prompt asks for. */
export interface ScriptedCall {
  name: string
  args: Record<string, unknown>
}

/** The calls of each step, first step first; the step after the last one answers. */
export type Script = ScriptedCall[][]

/**
 * Reads what a prompt tells the simulated model to do:
 * `use <tool> <arguments> and <tool> <arguments> then <tool> …`, where `then` starts the next step and `and` is one more
 * call in the same step. `spawn: <text>` passes the whole rest, script words and all, to a child.
 */
export function readScript(text: string, tools: readonly ToolSchema[]): Script {
  const spawn = /\bspawn: ?(.*)$/s.exec(text)
  const own = spawn ? text.slice(0, spawn.index) : text
  const use = /\buse (.*)$/s.exec(own)?.[1] ?? ''
  const steps = use.split(/\bthen\b/).map(step =>
    step
      .split(/\band\b/)
      .map(call => call.trim())
      .filter(Boolean)
  )
  const script: Script = steps.filter(calls => calls.length > 0).map(calls => calls.map(call => readCall(call, tools)))
  if (spawn) script.push([{ name: 'spawn', args: { text: spawn[1] } }])
  return script
}

/** Words go to the parameters in their order; the last parameter takes all that is left. */
function readCall(call: string, tools: readonly ToolSchema[]): ScriptedCall {
  const [name = '', ...words] = call.split(/\s+/)
  const parameters = Object.entries(tools.find(tool => tool.name === name)?.parameters ?? {})
  const args: Record<string, unknown> = {}
  parameters.forEach(([key, { type }], index) => {
    const value = index === parameters.length - 1 ? words.slice(index).join(' ') : words[index]
    if (value) args[key] = type === 'number' ? Number(value) : value
  })
  return { name, args }
}
