// One contender with one app: what a save costs, and what becomes of it.
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { closeSync, openSync, readFileSync, writeFileSync, writeSync } from 'node:fs'
import { createServer } from 'node:net'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { app } from './folder.mjs'

/** A save that is not seen by then is lost. */
const LOST = 2500
/** Between two edits: what follows a reload, as an audit, belongs to it. */
const SETTLE = 200
const NOTHING = { seen: [], gaps: [], evaluated: [] }

export const quantile = (values, share) => values.toSorted((a, b) => a - b)[Math.floor((values.length - 1) * share)]
const ms = ns => Number(ns) / 1e6

/** A running app, and what it tells. */
class Running {
  #waiting = new Set()
  #last
  #sockets = new Set()
  served = { at: 0n, version: -1, evaluated: 0, pid: 0 }
  gap = 0

  static async start(node, { args, env }, root) {
    const running = new Running()
    const server = createServer(socket => running.#accept(socket)).listen(0, '127.0.0.1')
    await once(server, 'listening')
    const child = spawn(node, args, {
      cwd: root,
      env: { ...process.env, ...env, NODE_OPTIONS: '', BENCH_PORT: String(server.address().port) },
      stdio: ['ignore', 'pipe', 'pipe']
    })
    let output = ''
    for (const stream of [child.stdout, child.stderr])
      stream.on('data', data => (output = (output + data).slice(-4000)))
    running.output = () => output
    const exited = once(child, 'exit')
    running.exited = exited.then(([code, signal]) => {
      throw new Error(`ended with ${code ?? signal}: ${output}`)
    })
    running.exited.catch(() => {})
    running.stop = async () => {
      for (const socket of running.#sockets) socket.destroy()
      server.close()
      child.kill('SIGTERM')
      const killer = setTimeout(() => child.kill('SIGKILL'), 3000)
      await exited
      clearTimeout(killer)
    }
    return running
  }

  #accept(socket) {
    this.#sockets.add(socket)
    let rest = ''
    socket.on('error', () => {})
    socket.on('close', () => this.#sockets.delete(socket))
    socket.setEncoding('utf8').on('data', data => {
      const lines = (rest + data).split('\n')
      rest = lines.pop()
      for (const line of lines) this.#tell(line.split(' '))
    })
  }

  #tell([what, ...words]) {
    if (what === 'alive') this.#last?.(words.map(Number))
    else {
      const [at, version, evaluated, pid] = [BigInt(words[0]), ...words.slice(1).map(Number)]
      if (this.served.at > 0n) this.gap = Math.max(this.gap, ms(at - this.served.at))
      this.served = { at, version, evaluated, pid }
    }
    for (const look of this.#waiting) look()
  }

  /** Waits until a version has been served; resolves with when, or with `undefined` when that is not within `limit`. */
  until(version, limit) {
    return new Promise(resolve => {
      const end = value => {
        clearTimeout(timer)
        this.#waiting.delete(look)
        resolve(value)
      }
      const look = () => this.served.version === version && end(this.served.at)
      const timer = setTimeout(end, limit)
      this.#waiting.add(look)
      look()
    })
  }

  /** How many storages its process has made, and how many of them are alive. */
  storages() {
    const counted = new Promise(resolve => (this.#last = resolve))
    for (const socket of this.#sockets) socket.write('count\n')
    return Promise.race([counted, this.exited])
  }
}

/** Measures `edits` saves; with `pairs`, also as many pairs of saves and half as many saves in two writes. */
export async function measure(node, name, contender, fillers, edits, pairs) {
  const root = app(name.replaceAll(/\W+/g, '-'), fillers)
  const file = join(root, 'provider.js')
  const source = readFileSync(file, 'utf8')
  const make = version => source.replace(/VERSION = \d+/, `VERSION = ${version}`)
  const before = process.hrtime.bigint()
  const running = await Running.start(node, contender, root)
  try {
    const booted = await Promise.race([running.until(0, 60_000), running.exited])
    if (booted === undefined) throw new Error(`${name} did not start: ${running.output()}`)
    await sleep(1500)
    let version = 0
    const { seen, gaps, evaluated } = structuredClone(NOTHING)
    let missed = 0
    for (let edit = -3; edit < edits; edit++) {
      const { pid, evaluated: until } = running.served
      running.gap = 0
      const saved = process.hrtime.bigint()
      writeFileSync(file, make(++version))
      const at = await running.until(version, LOST)
      await sleep(SETTLE)
      if (edit < 0) continue
      if (at === undefined) {
        missed++
        continue
      }
      seen.push(ms(at - saved))
      gaps.push(running.gap)
      evaluated.push(running.served.evaluated - (running.served.pid === pid ? until : 0))
    }
    const [made, alive] = await running.storages()
    const result = {
      boot: ms(booted - before),
      p50: quantile(seen, 0.5),
      p95: quantile(seen, 0.95),
      gap: quantile(gaps, 0.5),
      evaluated: quantile(evaluated, 0.5),
      kept: made > 1 ? (alive - 1) / (made - 1) : 0,
      missed
    }
    if (pairs === 0) return result
    let lost = 0
    for (let pair = 0; pair < pairs; pair++) {
      writeFileSync(file, make(++version))
      await sleep((200 * pair) / pairs)
      writeFileSync(file, make(++version))
      if ((await running.until(version, LOST)) === undefined) lost++
      await sleep(SETTLE)
    }
    let torn = 0
    for (let save = 0; save < pairs / 2; save++) {
      const text = make(++version)
      const descriptor = openSync(file, 'w')
      await sleep(5)
      writeSync(descriptor, text)
      closeSync(descriptor)
      if ((await running.until(version, LOST)) === undefined) torn++
      await sleep(SETTLE)
    }
    return { ...result, lost, torn }
  } finally {
    await running.stop()
  }
}
