import { useEffect, useRef, useState } from 'preact/hooks'
import type { Source } from '../extras/sources.ts'
import { openInEditor, request } from './connection.ts'
import type { Model } from './model.ts'
import type { Act } from './model.ts'

interface Props {
  source: Source
  model: Model
  act: Act
  close: () => void
}

/** What runs of a source file, with the lines that its copy has changed and the line of the last error. */
export function SourceDialog({ source, model, act, close }: Props) {
  const { path, file, copied } = source
  const dialog = useRef<HTMLDialogElement>(null)
  const [read, setRead] = useState<{ text: string; original: string } | undefined>(undefined)
  useEffect(() => dialog.current!.showModal(), [])
  // Read again after every reload: somebody may have saved it.
  const last = model.reports.at(-1)?.id
  useEffect(() => act(async () => setRead(await request('read', { path }))), [path, last, copied])
  const provider = model.providers.find(({ module }) => module === file)
  return (
    <dialog ref={dialog} aria-label={path} onClose={close}>
      <header>
        <h2>{path}</h2>
        {provider && (
          <small>
            {provider.name} {provider.generation}
          </small>
        )}
        {copied && <small class="copied">copy</small>}
        {copied && (
          <button type="button" onClick={() => act(() => request('undo', { path }))}>
            Undo
          </button>
        )}
        <button type="button" onClick={() => act(() => openInEditor(file))}>
          Open in editor
        </button>
        <button type="button" class="plain" aria-label="Close" onClick={() => dialog.current!.close()}>
          ✕
        </button>
      </header>
      {read && <Code {...read} failed={failedLine(model, source)} />}
    </dialog>
  )
}

function Code({ text, original, failed }: { text: string; original: string; failed: number | undefined }) {
  const lines = text.split('\n')
  const changed = changedLines(lines, original.split('\n'))
  const first = useRef<HTMLLIElement>(null)
  useEffect(() => first.current?.scrollIntoView({ block: 'center' }), [text, failed])
  const shown = failed ?? changed.from
  return (
    <ol class="code" tabIndex={0} aria-label="Source">
      {lines.map((line, index) => {
        const isChanged = index >= changed.from && index < changed.to
        const classes = [isChanged && 'is-changed', index === failed && 'is-failed'].filter(Boolean).join(' ')
        return (
          <li key={index} class={classes} ref={index === shown ? first : undefined}>
            {line || ' '}
          </li>
        )
      })}
    </ol>
  )
}

/** The lines between what both texts begin and end with; empty when they are equal. */
function changedLines(lines: string[], original: string[]): { from: number; to: number } {
  let from = 0
  while (from < lines.length && lines[from] === original[from]) from++
  let to = lines.length
  for (let end = original.length; to > from && end > from && lines[to - 1] === original[end - 1]; end--) to--
  return { from, to }
}

/** The line of the last error in the file, while what failed there is still its content. Counts from 0. */
function failedLine({ reports }: Model, { file, written }: Source): number | undefined {
  const last = reports.findLast(({ cause }) => cause.includes(file) || cause.includes(written))
  const location = last?.error?.location
  return location?.file === file ? location.line - 1 : undefined
}
