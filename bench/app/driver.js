import './probe.js'

globalThis.bench.evaluated++

/** Asks again and again, as an agent's loop does. */
export const name = 'driver'
export const inject = ['answers']
export function apply(ctx, id) {
  const { answers } = ctx
  if (id === 2) return lend(ctx, answers)
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

/** The other driver lives in the process, and asks for as long as there is somebody to ask. */
function lend(ctx, answers) {
  ctx.effect(() => {
    globalThis.bench.answers = answers
    return () => void (globalThis.bench.answers = undefined)
  })
}

export default { name, inject, apply }
