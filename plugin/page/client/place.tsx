/** A place in a source file, which opens in the editor: Vite knows how. */
import type { Location } from '../../report/script.ts'
import { shorten } from './format.ts'

/** A file, a line and a column, or a file alone. */
export function SourceLink({
  at,
  root
}: {
  at: Location | { file: string; line?: number; column?: number }
  root: string
}) {
  const place = [shorten(at.file, root), at.line].filter(part => part !== undefined).join(':')
  return (
    <button type="button" class="place" title={`Open ${place} in the editor`} onClick={() => openInEditor(at)}>
      <bdi>{place}</bdi>
    </button>
  )
}

function openInEditor({ file, line = 1, column = 1 }: { file: string; line?: number; column?: number }): void {
  const url = new URL('../__open-in-editor', document.baseURI)
  url.searchParams.set('file', `${file}:${line}:${column}`)
  void fetch(url)
}
