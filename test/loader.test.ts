import { describe, expect, test } from 'vitest'
import { seq } from './app.ts'
import { createRowsApp, FAMILIES, plugin } from './loader-fixture.ts'

describe.each(FAMILIES)('with $loader', family => {
  const yml = (word = 'one') => `# What runs.
- id: greeter
  name: ./providers/greeter.ts
  config:
    word: ${word} # a comment
- id: calc
  name: ./providers/calc.ts
`
  const files = {
    'cordis.yml': yml(),
    'providers/greeter.ts': plugin('greeter'),
    'providers/calc.ts': plugin('calc')
  }

  test('rows of cordis.yml run, and a saved module replaces its row with the config that it has', async () => {
    const app = await createRowsApp(family, files)
    await app.next('ready')
    expect(seq).toEqual(['greeter 1 up {"word":"one"}', 'calc 1 up'])
    const { entry } = { entry: app.entry('greeter') }
    seq.length = 0
    const report = await app.edit('providers/greeter.ts', plugin('greeter', 2))
    expect(report).toMatchObject({ outcome: 'reloaded', failures: [] })
    expect(seq).toEqual(['greeter 1 down', 'greeter 2 up {"word":"one"}'])
    expect(app.entry('greeter')).toBe(entry)
    expect(app.rows()).toEqual(['greeter on', 'calc on'])
    expect(await app.next('audit')).toMatchObject({ name: 'greeter', outcome: 'collected' })
    expect(app.read('cordis.yml')).toBe(yml())
  })

  test('a saved config takes down and up its row alone, and the next module gets it', async () => {
    const app = await createRowsApp(family, files)
    await app.next('ready')
    seq.length = 0
    expect(await app.save('cordis.yml', yml('two'))).toEqual({ outcome: 'reloaded', line: 'configured greeter' })
    expect(seq).toEqual(['greeter 1 down', 'greeter 1 up {"word":"two"}'])
    expect(await app.next('audit')).toMatchObject({ name: 'greeter', outcome: 'collected', instances: { created: 1 } })
    await app.edit('providers/greeter.ts', plugin('greeter', 2))
    expect(seq.at(-1)).toBe('greeter 2 up {"word":"two"}')
    expect(app.read('cordis.yml')).toBe(yml('two'))
  })
})
