/** Which content a file has, as far as its dates tell. */
import { statSync } from 'node:fs'
import { isAbsolute } from 'node:path'

/** What tells one content of a file from the next without reading it; `undefined` when there is no such file. */
export function signatureOf(file: string): string | undefined {
  const stat = isAbsolute(file) ? statSync(file, { throwIfNoEntry: false }) : undefined
  // An editor that truncates first leaves an empty file for a moment: not what is meant to run.
  return stat?.isFile() && stat.size > 0 ? `${stat.ino}:${stat.size}:${stat.mtimeMs}` : undefined
}
