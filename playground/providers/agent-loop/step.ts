import type { OpenTurn } from './progress.ts'
import type { ScriptedCall } from '../llm/script.ts'
import type { ToolCallRecord } from '../sessions.ts'
import type { ToolSchema } from '../tools.ts'
import type { Loop } from './loop.ts'

/** What one step of the model came to. */
interface StepOutput {
  text: string
  calls: ToolCallRecord[]
}

/** Runs one step of the model and puts it on record; a step that was cut off leaves nothing and is run again. */
export async function runStep(loop: Loop): Promise<void> {
  const agent = loop.agents.requireInitiator()
  const { session } = agent
  const { progress, signal } = loop.driverOf(agent)
  const turn = progress.turn!
  const { promptId } = turn
  let output: StepOutput
  try {
    output = await generate(loop, turn)
  } catch (error) {
    if (!signal.aborted)
      session.append('failed', { promptId, error: error instanceof Error ? error.message : String(error) })
    return
  }
  // A model may ignore the signal and end as if nothing had happened.
  if (signal.aborted) return
  if (output.calls.length > 0) session.append('step', { promptId, ...output })
  else session.append('answer', { promptId, text: output.text })
}

async function generate(loop: Loop, { promptId, steps }: OpenTurn): Promise<StepOutput> {
  const agent = loop.agents.requireInitiator()
  const { progress, signal } = loop.driverOf(agent)
  const output: StepOutput = { text: '', calls: [] }
  const tools = loop.tools.list(agent)
  const stream = loop.llm.generate({
    sessionId: agent.session.id,
    system: await loop.prompt.assemble({ agent, signal }),
    messages: progress.messages,
    tools,
    signal
  })
  for await (const delta of stream) {
    if (signal.aborted) break
    if (delta.type === 'text') {
      output.text += delta.text
      loop.emit(agent, { promptId, step: steps, text: delta.text })
    } else {
      const callId = `${promptId}-${steps}-${output.calls.length}`
      output.calls.push({ callId, name: delta.name, args: declaredArgs(delta, tools) })
    }
  }
  return output
}

/** A model may pass what no schema asks for, be it somebody's identity: it reaches neither the tool nor the record. */
function declaredArgs({ name, args }: ScriptedCall, tools: readonly ToolSchema[]): Record<string, unknown> {
  const parameters = tools.find(tool => tool.name === name)?.parameters ?? {}
  return Object.fromEntries(Object.entries(args).filter(([key]) => Object.hasOwn(parameters, key)))
}
