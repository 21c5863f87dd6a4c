import { Component } from 'preact'
import { useEffect, useState } from 'preact/hooks'
import { readSession } from './connection.ts'
import { hasEnded, type Model } from './model.ts'
import { Marker } from './outcome.tsx'
import { type Call, type Entry, transcript } from './transcript.ts'

interface Props {
  entry: Entry
  /** Whose conversation it is in. */
  agent: string
  model: Model
}

/** One line of a conversation. What agents and models say is only ever text. */
export class EntryView extends Component<Props> {
  override shouldComponentUpdate({ entry }: Props): boolean {
    const { key, rev, kind } = this.props.entry
    return entry.rev !== rev || entry.kind !== kind || entry.key !== key || hasChild(entry)
  }

  override render({ entry, agent, model }: Props) {
    return (
      <li class={`entry is-${entry.kind}`} data-kind={entry.kind}>
        {content(entry, agent, model)}
      </li>
    )
  }
}

/** A child goes on within the call of its parent. */
function hasChild(entry: Entry): boolean {
  return entry.kind === 'step' && entry.calls.some(({ name }) => name === 'spawn')
}

function content(entry: Entry, agent: string, model: Model) {
  switch (entry.kind) {
    case 'prompt':
    case 'queued':
      return (
        <>
          {entry.from && <small>from {entry.from}</small>}
          {entry.kind === 'queued' && <small>waits</small>}
          <p>{entry.text}</p>
        </>
      )
    case 'step':
      return (
        <>
          {entry.text && <p>{entry.text}</p>}
          {entry.calls.map(call => (
            <CallView key={call.callId} call={call} agent={agent} model={model} />
          ))}
        </>
      )
    case 'saying':
      return (
        <p>
          {entry.text}
          <span class="caret" aria-hidden="true" />
        </p>
      )
    case 'answer':
    case 'notice':
    case 'failed':
      return <p>{entry.text}</p>
    case 'cancelled':
      return <p>given up</p>
    case 'ended':
      return <p>has ended</p>
    case 'reload':
      return <Marker report={entry.report} audits={entry.audits} />
    default:
      return entry satisfies never
  }
}

function CallView({ call, agent, model }: { call: Call; agent: string; model: Model }) {
  const { callId, name, args, state, result } = call
  return (
    <div class={`call is-${state}`} data-state={state}>
      <p>
        <code>{name}</code> <span class="args">{Object.values(args).map(String).join(' ')}</span> <small>{state}</small>
      </p>
      {result && <p class="result">{result}</p>}
      {name === 'spawn' && state !== 'waiting' && <Child id={`${agent}-${callId}`} model={model} />}
    </div>
  )
}

/** The conversation with a child: open while it lasts, read when somebody opens it later. */
function Child({ id, model }: { id: string; model: Model }) {
  const child = model.conversations.get(id)
  const isOver = !child || hasEnded(child)
  const [isOpen, setOpen] = useState(!isOver)
  useEffect(() => setOpen(!isOver), [isOver])
  const toggle = (open: boolean) => {
    setOpen(open)
    if (open && !child) void readSession(model, id).catch(() => {})
  }
  return (
    <details class="child" open={isOpen} onToggle={event => toggle(event.currentTarget.open)}>
      <summary>
        child {id} <small>{isOver ? 'has ended' : 'at work'}</small>
      </summary>
      {isOpen && child && (
        <ol>
          {transcript(child, [], []).map(entry => (
            <EntryView key={entry.key} entry={entry} agent={id} model={model} />
          ))}
        </ol>
      )}
    </details>
  )
}
