// What the scripts that install packages have in common: npm itself, and a folder that is gone when the process ends.
import { mkdtempSync, realpathSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'

/** npm's own script, for Node to run: its `.cmd` file could not be spawned without a shell. */
export function npmScript() {
  const npm = process.env.npm_execpath
  if (!npm) throw new Error('run it by `npm run`')
  return npm
}

/** A new folder, removed when the process ends. */
export function temporaryFolder(name) {
  const folder = realpathSync(mkdtempSync(join(tmpdir(), `harness-hmr-${name}-`)))
  process.on('exit', () => rmSync(folder, { recursive: true, force: true, maxRetries: 5 }))
  return folder
}
