import { describe, expect, test } from 'vitest'
import { agents, Project } from '../fixtures/field-project.ts'
import { promptly } from '../promptly.ts'

describe.skipIf(process.platform === 'win32')('a signal', () => {
  test.each([
    ['SIGINT', 130],
    ['SIGTERM', 143],
    ['SIGHUP', 129]
  ] as const)(
    '%s while nothing happens tears the harness down once and ends the process with %i',
    async (signal, code) => {
      const project = new Project()
      await project.until('up 0 v1')
      project.server.signal(signal)
      expect(await promptly(project.server.exited, 'exit', 5000)).toEqual([code, null])
      expect(project.lives).toEqual(['up 0 v1', 'down 0 v1'])
    }
  )

  test('SIGINT while a reload drains tears every instance down once and ends the process', async () => {
    const slow = `yield () => new Promise(resolve => { process.send?.({ kind: 'draining' }); setTimeout(resolve, 200) })`
    const project = new Project({ 'agents.ts': agents(1, slow) })
    await project.until('up 0 v1')
    project.write('agents.ts', agents(2))
    await project.server.until('drain', () => project.server.messages.some(({ kind }) => kind === 'draining'))
    project.server.signal('SIGINT')
    expect(await promptly(project.server.exited, 'exit', 5000)).toEqual([130, null])
    expect(project.overlaps).toEqual([])
    expect(project.lives.filter(life => life === 'down 0 v1')).toHaveLength(1)
    expect(project.lives.at(-1)).toMatch(/^down/)
  })
})

describe('a restart', () => {
  test('by a saved .env stops the old harness before the new one is up, on the same address', async () => {
    const project = new Project({ '.env': 'A=1' })
    await project.until('up 0 v1')
    project.write('.env', 'A=2')
    await project.server.until('two lives', () => project.lives.length === 3)
    expect(project.lives).toEqual(['up 0 v1', 'down 0 v1', 'up 0 v1'])
    expect(project.overlaps).toEqual([])
  })

  test('that waits for a drain leaves one harness with the newest code, also when a provider is saved meanwhile', async () => {
    const slow = `yield () => new Promise(resolve => { process.send?.({ kind: 'draining' }); setTimeout(resolve, 300) })`
    const project = new Project({ 'agents.ts': agents(1, slow), '.env': 'A=1' })
    await project.until('up 0 v1')
    project.write('.env', 'A=2')
    await project.server.until('drain', () => project.server.messages.some(({ kind }) => kind === 'draining'))
    project.write('agents.ts', agents(2))
    await project.until('up 0 v2')
    expect(project.overlaps).toEqual([])
  })
})
