import './probe.js'

globalThis.bench.evaluated++

/** Asks again and again, as an agent's loop does. */
export const name = 'driver'
export const inject = ['answers']
export function apply(ctx) {
  const { answers } = ctx
  let stopped = false
  const step = async () => {
    await new Promise(resolve => setTimeout(resolve, 1))
    return answers.version()
  }
  const loop = async () => {
    while (!stopped) globalThis.bench.served(await answers.run(step))
  }
  ctx.effect(() => {
    void loop()
    return () => void (stopped = true)
  })
}
export default { name, inject, apply }
