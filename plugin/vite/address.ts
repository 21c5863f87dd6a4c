/** Where the command `harness-hmr` finds a dev server: a note in `node_modules/.cache`, for as long as the server runs. */
import { existsSync, mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'

/** What a dev server leaves. */
export interface ServerNote {
  /** Its address, with its base. */
  url: string
  /** Vite's root. */
  root: string
  pid: number
}

const FOLDER = join('node_modules', '.cache', 'harness-hmr')

/** Leaves a note where `node_modules` is nearest to the root; returns how to take it away. */
export function leaveNote(root: string, url: string): () => void {
  const home = ancestors(root).find(folder => existsSync(join(folder, 'node_modules')))
  if (home === undefined) return () => {}
  const { pid } = process
  const note: ServerNote = { url, root, pid }
  const file = join(home, FOLDER, `${pid}-${new URL(url).port}.json`)
  try {
    mkdirSync(dirname(file), { recursive: true })
    writeFileSync(file, JSON.stringify(note))
  } catch {
    // A folder that cannot be written to: the command needs `--url` then.
    return () => {}
  }
  return () => rmSync(file, { force: true })
}

/** The notes of the servers that run, of the projects that a folder is in; those of servers that were killed are taken away. */
export function findNotes(from: string): ServerNote[] {
  return ancestors(from).flatMap(folder => {
    const notes = join(folder, FOLDER)
    const files = existsSync(notes) ? readdirSync(notes).filter(file => file.endsWith('.json')) : []
    return files.flatMap(file => {
      const note = readNote(join(notes, file))
      if (note && isAlive(note.pid)) return [note]
      rmSync(join(notes, file), { force: true })
      return []
    })
  })
}

function readNote(file: string): ServerNote | undefined {
  try {
    return JSON.parse(readFileSync(file, 'utf8')) as ServerNote
  } catch {
    // Half written, or taken away meanwhile.
    return undefined
  }
}

function isAlive(pid: number): boolean {
  try {
    process.kill(pid, 0)
    return true
  } catch (error) {
    // Of another user, but there.
    return (error as NodeJS.ErrnoException).code === 'EPERM'
  }
}

function ancestors(folder: string): string[] {
  const parent = dirname(folder)
  return parent === folder ? [folder] : [folder, ...ancestors(parent)]
}
