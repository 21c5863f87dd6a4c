import { useState } from 'preact/hooks'
import type { EditView } from '../extras/page/protocol.ts'
import type { Source } from '../extras/sources.ts'
import { openInEditor, request } from './connection.ts'
import type { Act, Conversation, Model } from './model.ts'
import { Outcome } from './outcome.tsx'
import { SourceDialog } from './source-dialog.tsx'

interface Props {
  model: Model
  /** Who is asked. */
  agent: Conversation | undefined
  isPicked: boolean
}

/** Edits to try, and the sources of the providers. */
export function Panel({ model, agent, isPicked }: Props) {
  const [shown, show] = useState<string | undefined>(undefined)
  const [failure, setFailure] = useState('')
  const act: Act = work => {
    setFailure('')
    work().catch((error: Error) => setFailure(error.message))
  }
  const copied = model.sources.filter(source => source.copied)
  const undoAll = () => Promise.all(copied.map(({ path }) => request('undo', { path }))).then(() => {})
  const source = model.sources.find(({ path }) => path === shown)
  return (
    <aside class={isPicked ? 'is-picked' : ''} aria-label="Edits and sources">
      {failure && (
        <p class="failure" role="alert">
          {failure}
        </p>
      )}
      {model.edits.length > 0 && (
        <section aria-label="Edits to try">
          <h2>Try an edit</h2>
          <p class="quiet">
            It goes to a copy in <code>playground/.scratch</code>; your files stay as they are. Or save one of them in
            your editor: that drops its copy.
          </p>
          {copied.length > 0 && (
            <p class="copies">
              {copied.length} {copied.length === 1 ? 'file runs' : 'files run'} from a copy
              <button type="button" onClick={() => act(undoAll)}>
                Undo all
              </button>
            </p>
          )}
          <ul class="edits">
            {model.edits.map(edit => (
              <Edit key={edit.id} edit={edit} model={model} agent={agent} act={act} />
            ))}
          </ul>
        </section>
      )}
      <section aria-label="Sources">
        <h2>Sources</h2>
        <ul class="sources">
          {model.sources.map(source => (
            <SourceRow key={source.path} source={source} model={model} show={show} act={act} />
          ))}
        </ul>
        {model.sources.length === 0 && <p class="quiet">The harness shows no sources.</p>}
      </section>
      {source && <SourceDialog source={source} model={model} act={act} close={() => show(undefined)} />}
    </aside>
  )
}

function Edit({
  edit,
  model,
  agent,
  act
}: {
  edit: EditView
  model: Model
  agent: Conversation | undefined
  act: Act
}) {
  const { id, title, says, path, ask } = edit
  const isActive = model.active.includes(id)
  // Also of its undoing, where that has brought the old code back.
  const own = model.reports.find(report => report.id === model.cameOf[id])
  const report = isActive || own?.outcome === 'reloaded' ? own : undefined
  const make = () => act(() => request('edit', { edit: id }))
  const prompt = () => act(() => request('prompt', { agent: agent!.id, text: ask! }))
  return (
    <li class={isActive ? 'is-active' : ''} data-edit={id}>
      <h3>{title}</h3>
      <p>{says}</p>
      <p class="buttons">
        {path && !isActive && (
          <button type="button" onClick={make}>
            Try it
          </button>
        )}
        {path && isActive && (
          <button type="button" onClick={() => act(() => request('undo', { path }))}>
            Undo
          </button>
        )}
        {ask && agent && (
          <button type="button" class={path ? 'plain' : ''} title={ask} onClick={prompt}>
            Ask {agent.id}
          </button>
        )}
      </p>
      {report && (
        <div class="came-of" role="status">
          <Outcome report={report} audits={model.audits.filter(({ reload }) => reload === report.id)} />
        </div>
      )}
    </li>
  )
}

interface RowProps {
  source: Source
  model: Model
  show: (path: string) => void
  act: Act
}

function SourceRow({ source: { path, file, copied }, model, show, act }: RowProps) {
  const provider = model.providers.find(({ module }) => module === file)
  return (
    <li class={provider ? 'is-provider' : ''} data-source={path}>
      <button type="button" class="plain name" onClick={() => show(path)}>
        {path.replace('providers/', '')}
      </button>
      {provider && (
        <small class="generation" title={`${provider.name}, generation ${provider.generation}`}>
          {provider.generation}
        </small>
      )}
      {copied && <small class="copied">copy</small>}
      {copied && (
        <button type="button" class="plain" onClick={() => act(() => request('undo', { path }))}>
          Undo
        </button>
      )}
      <button
        type="button"
        class="plain open"
        aria-label={`Open ${path} in editor`}
        title="Open in editor"
        onClick={() => act(() => openInEditor(file))}
      >
        ↗
      </button>
    </li>
  )
}
