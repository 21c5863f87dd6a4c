import { describe, expect, test } from 'vitest'
import type { BoundaryScope } from '../../plugin/scope.ts'
import { deferred, promptly, turn } from '../promptly.ts'
import { countHooks, held, open, scopeOf } from '../fixtures/scope-fixture.ts'

describe("a disposal that is started in a boundary's own chain", () => {
  const chains: Record<string, (scope: BoundaryScope<string>) => Promise<unknown>> = {
    directly: scope => scope.run('own', () => scope.dispose()),
    'after awaits': scope =>
      scope.run('own', async () => {
        await turn()
        await turn()
        await scope.dispose()
      }),
    'in a nested boundary': scope =>
      scope.run('own', async () => {
        await scope.run('nested', async () => {
          await turn()
          await scope.dispose()
        })
      }),
    'in a cleared boundary': scope =>
      scope.run('own', async () => {
        await scope.run(undefined, () => scope.dispose())
      }),
    'under a boundary that has settled': scope =>
      scope.run('own', () =>
        scope.run('settled', () =>
          turn()
            .then(turn)
            .then(() => scope.dispose())
        )
      )
  }

  test.each(Object.keys(chains))('%s resolves, and drains unrelated boundaries first', async how => {
    const scope = scopeOf()
    const unrelated = held(scope, 'unrelated')
    const seq: string[] = []
    const done = chains[how]!(scope).then(() => seq.push('own done'))
    while (scope.state === 'open') await turn()
    await turn()
    expect(open(scope)).toEqual(['unrelated'])
    seq.push('unrelated')
    unrelated.resolve()
    await promptly(done, `disposal started ${how}`)
    expect(seq).toEqual(['unrelated', 'own done'])
    expect(scope.state).toBe('disposed')
  })

  test('from a detached timer of it resolves though the boundary itself never settles', async () => {
    const scope = scopeOf()
    const unrelated = held(scope, 'unrelated')
    const asked = deferred<Promise<void>[]>()
    void scope.run('own', () => {
      setTimeout(() => asked.resolve([scope.dispose()]), 0)
      return new Promise(() => {})
    })
    const [disposed] = await promptly(asked.promise, 'the timer')
    expect(open(scope)).toEqual(['unrelated'])
    unrelated.resolve()
    await promptly(disposed!, 'disposal from a detached timer')
  })

  test('resolves when it is the second call, made by the boundary that the first one waits for', async () => {
    const hooks = countHooks()
    const scope = scopeOf()
    const go = deferred()
    const own = scope.run('own', async () => {
      await go.promise
      await scope.dispose()
      return new Promise(() => {})
    })
    const first = scope.dispose()
    await turn()
    expect(open(scope)).toEqual(['own'])
    go.resolve()
    await promptly(first, 'disposal that its own boundary asked for again')
    expect(scope.state).toBe('disposed')
    expect(hooks().active).toBe(0)
    expect(own).toBeInstanceOf(Promise)
  })

  test('counts what it let go apart from what it waited for', async () => {
    const scope = scopeOf()
    const unrelated = held(scope, 'unrelated')
    const drained = scope.run('own', () => scope.run('nested', () => scope.drain()))
    unrelated.resolve()
    expect(await promptly(drained, 'drain from inside')).toEqual({ drained: 1, released: 2 })
  })

  test('still reads its value while unrelated boundaries drain', async () => {
    const scope = scopeOf()
    const unrelated = held(scope, 'unrelated')
    const read = scope.run('own', async () => {
      void scope.dispose()
      await turn()
      return scope.current()
    })
    expect(await promptly(read, 'a read in a released chain')).toBe('own')
    unrelated.resolve()
    await promptly(scope.dispose(), 'disposal')
  })
})
