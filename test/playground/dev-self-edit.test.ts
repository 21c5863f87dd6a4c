import { expect, test } from 'vitest'
import { DevServer } from '../fixtures/dev-server.ts'
import { createCopy, ends, onDisk, ready, recorded, report } from '../fixtures/probe.ts'

test('an agent that edits the registry that it runs on goes on, and knows the outcome before its next step', async () => {
  const copy = createCopy()
  copy.edit('vite.config.ts', source => source.replace('sessionsDir:', `editable: here('./playground'), sessionsDir:`))
  copy.edit('playground/providers/agents.ts', source => `${source}\nexport const mark = 'mark-one'\n`)
  const server = new DevServer(copy)
  await server.line(ready)
  const prompts = [
    'use edit providers/agents.ts mark-one mark-two then add 1 2',
    `use edit providers/agents.ts mark-two mark'three then add 3 4`,
    'use edit providers/nothing.ts a b'
  ]
  for (const text of prompts) server.send({ do: 'prompt', agent: 'ada', text })
  await server.until('three answers', () => ends(recorded(server, 'ada')).length === 3)

  expect(copy.read('playground/providers/agents.ts')).toContain(`mark'three`)
  const lines = server.lines.filter(line => report.test(line)).map(line => /\] (\S+ \S+ \d+)/.exec(line)?.[1])
  expect(lines).toEqual(['reloaded agents 1', 'kept agents 2'])
  const events = onDisk(copy, 'ada')
  expect(events.map(({ seq }) => seq)).toEqual(events.map((_, index) => index))
  const told = events.flatMap(({ type, data }) => {
    if (type === 'step') return ['step']
    if (type === 'result') return [data.output ?? data.error ?? '']
    return type === 'notice' || type === 'answer' ? [`${type}: ${data.text}`] : []
  })
  expect(told).toEqual([
    'step',
    expect.stringMatching(/^agents 1.* will be replaced when this call has returned and the agent has come to the end/),
    'notice: reloaded: agents 2 runs the new code',
    'step',
    '1 + 2 = 3',
    expect.stringContaining('answer: About "use edit providers/agents.ts mark-one'),
    'step',
    expect.stringMatching(/^agents 2.* will be replaced/),
    expect.stringMatching(/^notice: kept: .*\(agents 2 goes on\)$/),
    'step',
    '3 + 4 = 7',
    expect.stringContaining('answer: About'),
    'step',
    expect.stringContaining('ENOENT'),
    expect.stringContaining('answer: About')
  ])
})
