// In a process of its own, `node registry.mjs <the built AgentRegistry of the playground>`: a call of `ctx.agents.withInitiator`, beside
// that of dsh-agent, through a context and through a reference that is kept. Prints JSON, in ns.
import { createRequire } from 'node:module'
import { pathToFileURL } from 'node:url'

const require = createRequire(process.argv[2])
const load = name => import(pathToFileURL(require.resolve(name)).href)
const { Context } = await load('@deepseek-ai/cordis')
const { default: Theirs } = await load('@deepseek-ai/dsh-agent')
const { default: Ours } = await import(process.argv[2])

async function contextOf(plugin) {
  const root = new Context()
  await root.plugin(plugin)
  let found
  await root.plugin({ name: 'user', inject: ['agents'], apply: ctx => void (found = ctx) })
  return found
}

const [ours, theirs] = [await contextOf(Ours), await contextOf(Theirs)]
const kept = { ours: ours.agents, theirs: theirs.agents }
const agent = { id: 'ada' }
const operation = async () => {
  await null
}
const kinds = {
  ours: () => ours.agents.withInitiator(agent, operation),
  theirs: () => theirs.agents.withInitiator(agent, operation),
  oursKept: () => kept.ours.withInitiator(agent, operation),
  theirsKept: () => kept.theirs.withInitiator(agent, operation),
  read: () => ours.agents
}
const rounds = Object.fromEntries(Object.keys(kinds).map(name => [name, []]))
for (let round = -20; round < 60; round++) {
  for (const [name, call] of Object.entries(kinds)) {
    const start = performance.now()
    for (let i = 0; i < 200; i++) await call()
    if (round >= 0) rounds[name].push((performance.now() - start) * 5000)
  }
}
const median = values => values.toSorted((a, b) => a - b)[values.length >> 1]
const medians = Object.fromEntries(Object.entries(rounds).map(([name, values]) => [name, median(values)]))
process.stdout.write(JSON.stringify(medians), () => process.exit())
