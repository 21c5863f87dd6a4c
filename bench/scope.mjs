// In a process of its own, `node scope.mjs <the built scope>`: what a boundary costs beside the plain AsyncLocalStorage and the
// usual way to count open runs. Short rounds of each in turn, so that a noisy machine is as noisy for all. Prints JSON, in ns.
import { AsyncLocalStorage } from 'node:async_hooks'

const { BoundaryScope, SCOPE_SLOT } = await import(process.argv[2])
const value = { id: 'ada' }
const asynchronous = async () => {
  await null
}
const synchronous = () => 1

const raw = new AsyncLocalStorage()
const counted = { open: 0, storage: new AsyncLocalStorage() }
const done = () => void counted.open--
const scope = new BoundaryScope()
const crowded = new BoundaryScope()
for (let i = 0; i < 1000; i++) void crowded.run(value, () => new Promise(() => {}))
// As in a development server's process.
globalThis[SCOPE_SLOT] = () => () => {}
const noted = new BoundaryScope()
delete globalThis[SCOPE_SLOT]

function count(operation) {
  counted.open++
  const result = counted.storage.run(value, operation)
  result.then(done, done)
  return result
}

const awaited = (run, times = 300) => [
  times,
  async () => {
    for (let i = 0; i < times; i++) await run(asynchronous)
  }
]
const called = (run, times = 2000) => [
  times,
  () => {
    for (let i = 0; i < times; i++) run(synchronous)
  }
]
const read = (within, current, times = 10_000) => [
  times,
  () =>
    within(() => {
      let found = 0
      for (let i = 0; i < times; i++) if (current()) found++
      return found
    })
]

const kinds = {
  raw: awaited(operation => raw.run(value, operation)),
  then: awaited(count),
  scope: awaited(operation => scope.run(value, operation)),
  fresh: awaited(operation => scope.run({ id: 'ada' }, operation)),
  noted: awaited(operation => noted.run(value, operation)),
  crowded: awaited(operation => crowded.run(value, operation)),
  rawCalled: called(operation => raw.run(value, operation)),
  scopeCalled: called(operation => scope.run(value, operation)),
  notedCalled: called(operation => noted.run(value, operation)),
  crowdedCalled: called(operation => crowded.run(value, operation)),
  read: read(
    operation => scope.run(value, operation),
    () => scope.current()
  ),
  crowdedRead: read(
    operation => crowded.run(value, operation),
    () => crowded.current()
  )
}

const rounds = Object.fromEntries(Object.keys(kinds).map(name => [name, []]))
for (let round = -30; round < 120; round++) {
  for (const [name, [times, run]] of Object.entries(kinds)) {
    const start = performance.now()
    await run()
    if (round >= 0) rounds[name].push(((performance.now() - start) * 1e6) / times)
  }
}
const median = values => values.toSorted((a, b) => a - b)[values.length >> 1]
const medians = Object.fromEntries(Object.entries(rounds).map(([name, values]) => [name, median(values)]))
process.stdout.write(JSON.stringify(medians), () => process.exit())
