// What the app tells the benchmark: over a socket, since some of the peers start processes of their own.
import { connect } from 'node:net'
import { setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'

const turn = () => new Promise(resolve => setImmediate(resolve))

/** How many of the storages that were made are alive after garbage collections. */
async function count(storages) {
  setFlagsFromString('--expose-gc')
  const gc = runInNewContext('gc')
  for (let i = 0; i < 5; i++) {
    await turn()
    gc()
  }
  await turn()
  return storages.filter(ref => ref.deref()).length
}

function start() {
  const socket = connect(Number(process.env.BENCH_PORT), '127.0.0.1').setNoDelay().unref()
  // It is over when the benchmark is.
  socket.on('error', () => process.exit()).on('close', () => process.exit())
  const send = (...words) => void socket.write(`${words.join(' ')}\n`)
  const storages = []
  const answer = async () => send('alive', storages.length, await count(storages))
  socket.on('data', () => void answer())
  const bench = {
    evaluated: 0,
    made: storage => void storages.push(new WeakRef(storage)),
    served: version => send('served', process.hrtime.bigint(), version, bench.evaluated, process.pid)
  }
  void live(bench)
  return bench
}

/** A driver that lives on while the provider is replaced, as a server or an agent's loop that is parked. */
async function live(bench) {
  const pause = () => new Promise(resolve => setTimeout(resolve, 1))
  for (;;) {
    await pause()
    if (bench.answers) await bench.answers.run(pause)
  }
}

globalThis.bench ??= start()
