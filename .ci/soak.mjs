// `npm run soak [times]`: the built command soaks the playground on every Node line that is supported, two at a time.
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { LINES, nodeOf, run } from './node-lines.mjs'

const times = process.argv[2] ?? '200'
const command = 'dist/cli.js soak --root playground --entry harness.ts --reload providers/agents.ts'

async function soak(line) {
  const { code, output } = await run(await nodeOf(line), [...command.split(' '), '--times', times], { pipe: true })
  console.log(output)
  // 2: the slope could not be told, on a machine that is busy with other things.
  return code === 0 ? 'passed' : code === 2 ? 'skipped' : 'failed'
}

const results = []
for (let i = 0; i < LINES.length; i += 2) results.push(...(await Promise.all(LINES.slice(i, i + 2).map(soak))))
const [passed, failed, skipped] = ['passed', 'failed', 'skipped'].map(
  outcome => results.filter(result => result === outcome).length
)
if (process.env.MATRIX_REPORTS) {
  const report = { numPassedTests: passed, numFailedTests: failed, numPendingTests: skipped, numTodoTests: 0 }
  writeFileSync(join(process.env.MATRIX_REPORTS, 'soak.json'), JSON.stringify({ ...report, success: failed === 0 }))
}
process.exitCode = failed > 0 ? 1 : 0
