import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { Context, type Fiber, type Plugin } from 'cordis'
import { describe, expect, onTestFinished, test } from 'vitest'
import harness from '../../playground/harness.ts'
import { AgentLoop } from '../../playground/providers/agent-loop.ts'
import { AgentRegistry } from '../../playground/providers/agents.ts'
import { SimulatedModel } from '../../playground/providers/llm.ts'
import { PromptAssembly } from '../../playground/providers/prompt.ts'
import { RollCall } from '../../playground/extras/roll-call.ts'
import { SessionLog } from '../../playground/providers/session-log.ts'
import { SessionStore } from '../../playground/providers/sessions.ts'
import { ToolRuntime } from '../../playground/providers/tools.ts'
import { promptly } from '../promptly.ts'
import { boot, reloaded } from './fixture.ts'

const playground = join(import.meta.dirname, '../../playground')
const folders = ['providers', 'extras']
const entries = folders.flatMap(folder => readdirSync(join(playground, folder), { withFileTypes: true }))
const providerFiles = entries.map(({ name }) => name).filter(name => name.endsWith('.ts'))
const pathOf = (file: string) => {
  const isExtra = entries.some(({ name, parentPath }) => name === file && parentPath.endsWith('extras'))
  return join(playground, isExtra ? 'extras' : 'providers', file)
}

/** Without its comments, which name services for the reader. */
const source = (file: string) => readFileSync(pathOf(file), 'utf8').replace(/\/\*[\s\S]*?\*\/|^ *\/\/.*$/gm, '')

/** A service is read as a property, out of a destructured context, or by its name, be it to inject or to get it. */
const READS_AGENTS = new RegExp(
  [
    String.raw`\b(?:ctx|root)\.agents\b`,
    String.raw`\{[^{}]*\bagents\b[^{}]*\} = (?:this\.)?ctx\b`,
    String.raw`inject = \[[^\]]*'agents'`,
    String.raw`get\('agents'`
  ].join('|')
)

const readers = providerFiles.filter(file => READS_AGENTS.test(source(file)))

/** The plugin of a provider file is its default export. */
async function pluginOf(file: string): Promise<Plugin> {
  const module = (await import(/* @vite-ignore */ pathOf(file))) as { default: Plugin }
  return module.default
}

const injects = (plugin: Plugin): readonly string[] => (plugin as { inject?: readonly string[] }).inject ?? []

function root(): { ctx: Context; problems: string[] } {
  const ctx = new Context()
  const problems: string[] = []
  ctx.logger.exporter({ levels: { default: 1 }, export: ({ args }) => void problems.push(args.map(String).join(' ')) })
  onTestFinished(() => promptly(ctx.fiber.dispose(), 'disposal'))
  return { ctx, problems }
}

/** The fibers of the providers that read `ctx.agents`, by file. */
async function readersIn(ctx: Context): Promise<Record<string, Fiber[]>> {
  const found: Record<string, Fiber[]> = {}
  for (const file of readers) found[file] = [...(ctx.registry.get(await pluginOf(file))?.fibers ?? [])]
  return found
}

async function expectServed(ctx: Context, files: string[]): Promise<void> {
  const fibers = await readersIn(ctx)
  expect(Object.keys(fibers).filter(file => fibers[file]!.length > 0)).toEqual(files)
  expect(ctx.get('agents')).toBeInstanceOf(AgentRegistry)
  for (const fiber of Object.values(fibers).flat()) {
    await promptly(fiber.await(), fiber.name)
    expect(fiber.ctx.get('agents'), fiber.name).toBeInstanceOf(AgentRegistry)
    expect(
      Object.keys(fiber.inject).filter(name => !(name in fiber.store!)),
      fiber.name
    ).toEqual([])
  }
}

/** What an AgentLoop needs, and not one provider more. */
async function bare(ctx: Context, without?: Plugin): Promise<void> {
  for (const plugin of [
    SessionLog,
    AgentRegistry,
    SessionStore,
    ToolRuntime,
    PromptAssembly,
    SimulatedModel,
    AgentLoop
  ])
    if (plugin !== without) await ctx.plugin(plugin as Plugin)
}

test('the providers that read ctx.agents are these, and each injects it unless it can do without', async () => {
  expect(readers.toSorted()).toEqual([
    'agent-execution.ts',
    'agent-loop.ts',
    'basic-tools.ts',
    'jobs.ts',
    'page.ts',
    'residents.ts',
    'transport.ts',
    'visitor.ts'
  ])
  for (const file of readers)
    expect([file, injects(await pluginOf(file)).includes('agents')]).toEqual([
      file,
      !['jobs.ts', 'page.ts'].includes(file)
    ])
})

test('no other provider injects ctx.agents, whatever its source looks like', async () => {
  const injecting: string[] = []
  for (const file of providerFiles) if (injects(await pluginOf(file)).includes('agents')) injecting.push(file)
  expect(injecting).not.toEqual([])
  expect(readers).toEqual(expect.arrayContaining(injecting))
})

describe('the registry is loaded', () => {
  test('by the entry of the harness, forevery provider that reads it', async () => {
    const { ctx, problems } = root()
    await ctx.plugin(harness, { latency: 0, visits: 60_000, log: false, agents: { ada: [] } })
    await expectServed(ctx, readers)
    expect(problems).toEqual([])
  })

  test('by the fixture of the tests, for all but those who are no part of it', async () => {
    const { root } = await boot()
    await expectServed(
      root,
      readers.filter(file => !['page.ts', 'residents.ts', 'visitor.ts'].includes(file))
    )
  })

  test('in a bare AgentLoop set-up, which needs no provider beyond those that the loop injects', async () => {
    const { ctx, problems } = root()
    await bare(ctx)
    await ctx.plugin(RollCall)
    await expectServed(ctx, ['agent-loop.ts'])
    const ada = await ctx.agents.create({ id: 'ada' })
    expect(await promptly(ada.prompt('hello').answer(), 'answer')).toContain('hello')
    expect(problems).toEqual([])
  })
})

test('the table of providers in the README names every file, and the services that it provides', async () => {
  const { ctx } = root()
  await ctx.plugin(harness, { latency: 0, visits: 60_000, agents: {}, editable: playground })
  const readme = readFileSync(join(playground, 'README.md'), 'utf8')
  const rows = [...readme.matchAll(/^\| (`[^|]*`) +\| +([^|]*)\|/gm)].map(([, ...cells]) =>
    cells.map(cell => [...cell.matchAll(/`([^`]+)`/g)].map(([, name]) => name!))
  )
  const listed = rows.flatMap(([files]) => files!)
  expect(listed.toSorted()).toEqual(
    entries.map(entry => (entry.isDirectory() ? `${entry.name}/` : entry.name)).toSorted()
  )
  for (const [files, services] of rows) {
    const provided: string[] = []
    for (const file of files!.filter(file => file.endsWith('.ts'))) {
      const fibers = [...(ctx.registry.get(await pluginOf(file))?.fibers ?? [])]
      expect(fibers, `${file} is part of the harness`).toHaveLength(1)
      const [{ store }] = fibers as [Fiber]
      provided.push(...Object.keys(store!).filter(name => store![name]!.fiber === fibers[0]))
    }
    expect(provided, files!.join()).toEqual(services)
  }
})

describe('with the registry missing', () => {
  test('the loop is inactive and the roll call says so, once, until the registry is there', async () => {
    const { ctx, problems } = root()
    await bare(ctx, AgentRegistry)
    await ctx.plugin(RollCall)
    expect(ctx.get('agentLoop')).toBeUndefined()
    expect(problems).toEqual(['provider "AgentLoop" is inactive: nobody provides "agents"'])
    await ctx.parallel('harness-hmr/after-reload', reloaded)
    expect(problems).toHaveLength(1)
    const registry = await ctx.plugin(AgentRegistry)
    await ctx.parallel('harness-hmr/after-reload', reloaded)
    expect(ctx.get('agentLoop')).toBeInstanceOf(AgentLoop)
    expect(problems).toHaveLength(1)
    await registry.dispose()
    await ctx.parallel('harness-hmr/after-reload', reloaded)
    expect(problems).toHaveLength(2)
  })

  test('whatever depends on the loop is inactive too, and all of it is named', async () => {
    const { ctx, problems } = root()
    await bare(ctx, AgentRegistry)
    for (const file of readers) if (file !== 'agent-loop.ts') ctx.plugin(await pluginOf(file))
    await ctx.plugin(RollCall)
    const told = problems.map(problem => /"(\w+)" is inactive/.exec(problem)![1]!)
    expect(told.toSorted()).toEqual([
      'AgentExecutionProvider',
      'AgentLoop',
      'BasicTools',
      'HostTransport',
      'Residents',
      'Visitor'
    ])
    expect(ctx.get('jobs')).toBeDefined()
  })
})

describe('the loop, turn, step and tool-call functions', () => {
  const files = ['run-loop.ts', 'turn.ts', 'step.ts', 'tool-call.ts']
  const functions = files.flatMap(file =>
    [
      ...source(`agent-loop/${file}`).matchAll(/^(?:export )?async function (\w+)\(([^)]*)\)[^{]*\{\n([\s\S]*?)^\}/gm)
    ].map(([, name, parameters, body]) => [name!, parameters!, body!] as const)
  )

  test('are these', () => {
    expect(functions.map(([name]) => name)).toEqual([
      'runLoop',
      'runTurn',
      'isReady',
      'runStep',
      'generate',
      'runToolCall',
      'execute'
    ])
  })

  test.each(functions)(
    '%s takes no agent and no session, asks ctx.agents once and derives the session at most once',
    (_, parameters, body) => {
      expect(parameters).not.toMatch(/agent|session/i)
      expect(body.match(/loop\.agents\.requireInitiator\(\)/g)).toHaveLength(1)
      expect((body.match(/agent\.session\b|\{ [^}]*\bsession\b[^}]*\} = agent/g) ?? []).length).toBeLessThanOrEqual(1)
    }
  )
})
