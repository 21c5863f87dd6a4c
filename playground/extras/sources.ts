import { existsSync, mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { dirname, join, relative, resolve, sep } from 'node:path'
import type { Context } from 'cordis'

/** Options of {@link Sources}. */
export interface SourcesConfig {
  /** The folder of the source files. */
  folder: string
  /** The folder of the copies that run in their place; without it the source files themselves are written to. */
  scratch?: string
}

/** One source file. */
export interface Source {
  /** Relative to the folder, with `/` on every system. */
  path: string
  /** Absolute path of the source file. */
  file: string
  /** Absolute path of what is written to, and read when it is there. */
  written: string
  /** Whether a copy in the scratch folder runs in its place. */
  copied: boolean
}

declare module 'cordis' {
  interface Context {
    sources: Sources
  }
}

/** The harness' own source files, for those who edit them while they run (`ctx.sources`). */
export class Sources {
  private readonly folder: string
  private readonly scratch: string | undefined

  constructor(ctx: Context, { folder, scratch }: SourcesConfig) {
    this.folder = folder
    this.scratch = scratch
    ctx.provide('sources', this)
  }

  /** The providers and their helpers. */
  list(): Source[] {
    const found = readdirSync(join(this.folder, 'providers'), { recursive: true, encoding: 'utf8' })
    return found
      .filter(path => path.endsWith('.ts'))
      .map(path => this.at(`providers/${path.split(sep).join('/')}`))
      .toSorted((a, b) => (a.path < b.path ? -1 : 1))
  }

  /**
   * The source file of a path.
   * @throws when it is outside of the folder.
   */
  at(path: string): Source {
    const file = resolve(this.folder, path)
    const inside = relative(this.folder, file)
    if (inside === '' || inside.startsWith('..') || resolve(this.folder, inside) !== file)
      throw new Error(`file "${path}" is outside of what may be edited`)
    const written = this.scratch === undefined ? file : join(this.scratch, inside)
    return { path: inside.split(sep).join('/'), file, written, copied: written !== file && existsSync(written) }
  }

  /** What runs of it. */
  read(path: string): string {
    const { file, written, copied } = this.at(path)
    return readFileSync(copied ? written : file, 'utf8')
  }

  /** What its author wrote. */
  original(path: string): string {
    return readFileSync(this.at(path).file, 'utf8')
  }

  /** Writes it, or its copy; returns the absolute path of what was written, which has to be reloaded. */
  write(path: string, text: string): string {
    const { written } = this.at(path)
    mkdirSync(dirname(written), { recursive: true })
    writeFileSync(written, text)
    return written
  }

  /** Removes the copy; returns its absolute path. */
  drop(path: string): string {
    const { file, written } = this.at(path)
    if (written !== file) rmSync(written, { force: true })
    return written
  }
}

export default Sources
