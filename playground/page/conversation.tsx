import { useEffect, useLayoutEffect, useRef, useState } from 'preact/hooks'
import { EntryView } from './entry.tsx'
import type { Conversation, Model } from './model.ts'
import { PromptBox } from './prompt-box.tsx'
import { isBusy, transcript } from './transcript.ts'

/** How near to its end, in pixels, a conversation follows what is said. */
const NEAR = 80

interface Props {
  conversation: Conversation
  model: Model
  hue: number
  isPicked: boolean
}

/** One agent: what was said and done, with the reloads where they happened, and a box to say something. */
export function ConversationView({ conversation, model, hue, isPicked }: Props) {
  const { id, events } = conversation
  const entries = transcript(conversation, model.reports, model.audits)
  const last = entries.at(-1)
  const { list, isBehind, toEnd } = useFollowing(`${entries.length} ${last?.key} ${last?.rev}`, isPicked)
  const busy = isBusy(events)
  const state = !conversation.live ? 'away' : conversation.parked ? 'parked' : busy ? 'at work' : 'idle'
  return (
    <section class={`agent hue-${hue % 6}${isPicked ? ' is-picked' : ''}`} aria-label={id} data-agent={id}>
      <h2>
        <span class="avatar" aria-hidden="true">
          {id.slice(0, 1)}
        </span>
        {id} <small class={`state is-${state.replace(' ', '-')}`}>{state}</small>
      </h2>
      <div class="transcript" role="log" aria-live="off" aria-label={`Conversation with ${id}`} tabIndex={0} ref={list}>
        {(events[0]?.seq ?? 0) > 0 && <p class="earlier">{events[0]!.seq} earlier events are in the session's file</p>}
        {entries.length === 0 && <p class="earlier">Nobody has asked {id} anything yet.</p>}
        <ol>
          {entries.map(entry => (
            <EntryView key={entry.key} entry={entry} agent={id} model={model} />
          ))}
        </ol>
      </div>
      {isBehind && (
        <button type="button" class="to-end" onClick={toEnd}>
          ↓ newest
        </button>
      )}
      <PromptBox agent={id} canStop={busy} />
    </section>
  )
}

/** Keeps a list at its end while its reader is there. */
function useFollowing(revision: string, isPicked: boolean) {
  const list = useRef<HTMLDivElement>(null)
  const following = useRef(true)
  const [isBehind, setBehind] = useState(false)
  const toEnd = () => {
    following.current = true
    setBehind(false)
    list.current?.scrollTo({ top: list.current.scrollHeight })
  }
  useEffect(() => {
    const element = list.current!
    const onScroll = () => {
      following.current = element.scrollHeight - element.scrollTop - element.clientHeight < NEAR
      setBehind(!following.current)
    }
    element.addEventListener('scroll', onScroll, { passive: true })
    const sizes = new ResizeObserver(() => following.current && toEnd())
    sizes.observe(element)
    return () => {
      element.removeEventListener('scroll', onScroll)
      sizes.disconnect()
    }
  }, [])
  useLayoutEffect(() => {
    if (following.current) list.current!.scrollTop = list.current!.scrollHeight
  }, [revision, isPicked])
  return { list, isBehind, toEnd }
}
