import { describe, expect, test } from 'vitest'
import { seq } from '../fixtures/app.ts'
import { createRowsApp, FAMILIES, plugin } from '../fixtures/loader-fixture.ts'

/** Numbers that are the same each time; a failure says the seed. */
function random(seed: number): (below: number) => number {
  let state = seed
  return below => {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0
    return Math.floor((state / 2 ** 32) * below)
  }
}

const ROW = /\{ id: (\w), name: \.\/p(\d)\.ts, config: \{ n: (\d) \}( |, disabled: true )\}/g

const later = (ms: number) => new Promise(resolve => setTimeout(resolve, ms))

/** Any rows: in any order, with any config, some off, some in a group, some with a module that has another one's place. */
function anyRows(pick: (below: number) => number, group: string): string {
  const ids = ['a', 'b', 'c', 'd', 'e'].filter(() => pick(4) > 0).toSorted(() => pick(3) - 1)
  const row = (id: string) => {
    const off = pick(5) === 0 ? ', disabled: true' : ''
    return `{ id: ${id}, name: ./p${pick(3)}.ts, config: { n: ${pick(3)} }${off} }`
  }
  const [inside, outside] = [ids.filter((_, i) => i % 3 === 1), ids.filter((_, i) => i % 3 !== 1)]
  const grouped = inside.map(id => `\n    - ${row(id)}`).join('')
  const rows = outside.map(id => `- ${row(id)} # ${pick(100)}`)
  if (inside.length > 0) rows.push(`- id: group\n  name: '${group}'\n  group: true\n  config:${grouped}`)
  return rows.length > 0 ? `${rows.join('\n')}\n` : '[]\n'
}

describe.each(FAMILIES)('with $loader', family => {
  test.each([1, 2, 3])('whatever is saved how fast, what runs is what the file says in the end (%i)', async seed => {
    const pick = random(seed)
    const body = `if (config.n === 2 && VERSION % 3 === 2) throw new Error('not two')`
    const files = {
      'cordis.yml': anyRows(pick, family.group),
      ...Object.fromEntries([0, 1, 2].map(n => [`p${n}.ts`, plugin(`p${n}`, 1)]))
    }
    const app = await createRowsApp(family, files)
    await app.next('ready')
    let content = ''
    for (let n = 0; n < 25; n++) {
      if (pick(3) === 0) app.write(`p${pick(3)}.ts`, plugin(`p${pick(3)}`, n, { body }))
      else app.write('cordis.yml', (content = pick(5) === 0 ? '- { id: a, name' : anyRows(pick, family.group)))
      await later(pick(3) === 0 ? pick(150) : pick(10))
    }
    for (const n of [0, 1, 2]) app.write(`p${n}.ts`, plugin(`p${n}`, 100 + n))
    app.write('cordis.yml', (content = anyRows(pick, family.group)))
    const expected = [...content.matchAll(ROW)]
    const rows = expected.map(([, id, , , off]) => `${id} ${off === ' ' ? 'on' : 'off'}`).toSorted()
    const isThere = () => {
      const running = app.rows().filter(row => !row.startsWith('group'))
      return (
        running.toSorted().join() === rows.join() &&
        up().join() === newestOf(expected).join() &&
        app.harness.state === 'running'
      )
    }
    // No report says that it was the last.
    for (let n = 0; n < 200 && !isThere(); n++) await later(50)
    await app.harness.idle()
    expect(
      app
        .rows()
        .filter(row => !row.startsWith('group'))
        .toSorted(),
      app.lines.slice(-20).join('\n')
    ).toEqual(rows)
    // Each in the newest version, once, with its config.
    expect(up()).toEqual(newestOf(expected))
    const on = expected.filter(([, , , , off]) => off === ' ')
    expect(on.map(([, id]) => app.entry(id!).fiber!.ctx.fiber.config).toSorted(byN)).toEqual(
      on.map(([, , , n]) => ({ n: Number(n) })).toSorted(byN)
    )
    expect(app.read('cordis.yml')).toBe(content)
  })
})

/** What has come up and not gone down. */
function up(): string[] {
  const found: string[] = []
  for (const text of seq) {
    const [, who, what] = /^(p\d \d+) (up|down)/.exec(text)!
    if (what === 'up') found.push(who!)
    else if (found.includes(who!)) found.splice(found.indexOf(who!), 1)
  }
  return found.toSorted()
}

/** What has to be up. */
function newestOf(rows: RegExpExecArray[]): string[] {
  return rows.flatMap(([, , module, , off]) => (off === ' ' ? [`p${module} ${100 + Number(module)}`] : [])).toSorted()
}

function byN(a: unknown, b: unknown): number {
  return (a as { n: number }).n - (b as { n: number }).n
}
