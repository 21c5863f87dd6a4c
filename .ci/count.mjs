// Prints the closing line of .ci/run: the sums over vitest's JSON reports, and what failed outside of tests.
import { readFileSync } from 'node:fs'

const [status, failedBefore, ...files] = process.argv.slice(2)
let passed = 0
let failed = Number(failedBefore)
let skipped = 0
for (const file of files.filter(name => !name.includes('*'))) {
  const report = JSON.parse(readFileSync(file, 'utf8'))
  passed += report.numPassedTests
  failed += report.numFailedTests
  skipped += report.numPendingTests + report.numTodoTests
  if (!report.success && report.numFailedTests === 0) failed++
}
// A step that was ended has left no report.
if (failed === 0 && status !== '0') failed = 1
console.log(`${passed} passed, ${failed} failed${skipped > 0 ? `, ${skipped} skipped` : ''}`)
process.exit(failed > 0 || passed === 0 ? 1 : 0)
