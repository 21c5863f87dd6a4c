import { useState } from 'preact/hooks'
import { ConversationView } from './conversation.tsx'
import { Header } from './header.tsx'
import { hasEnded, type Conversation, type Model } from './model.ts'
import { Panel } from './panel.tsx'
import { useModel } from './store.ts'

/** The page: the agents' conversations side by side, and the panel. On a narrow screen one of them at a time. */
export function App() {
  const model = useModel()
  const [picked, pick] = useState<string | undefined>(undefined)
  const agents = shown(model)
  const tab = picked ?? agents[0]?.id ?? 'edits'
  return (
    <>
      <Header model={model} />
      <nav class="tabs" aria-label="Shown">
        {agents.map(({ id }) => (
          <Tab key={id} id={id} tab={tab} pick={pick} />
        ))}
        <Tab id="edits" tab={tab} pick={pick} />
      </nav>
      <main class={`link-${model.link}`}>
        {agents.length === 0 && <Empty model={model} />}
        <div class="agents">
          {agents.map((conversation, index) => (
            <ConversationView
              key={conversation.id}
              conversation={conversation}
              model={model}
              hue={index}
              isPicked={tab === conversation.id}
            />
          ))}
        </div>
        {model.link !== 'connecting' && model.link !== 'waiting' && (
          <Panel model={model} agent={agents.find(({ id }) => id === tab) ?? agents[0]} isPicked={tab === 'edits'} />
        )}
      </main>
    </>
  )
}

function Tab({ id, tab, pick }: { id: string; tab: string; pick: (id: string) => void }) {
  return (
    <button type="button" aria-pressed={tab === id} onClick={() => pick(id)}>
      {id}
    </button>
  )
}

function Empty({ model: { link } }: { model: Model }) {
  const text = {
    connecting: 'Connecting to the dev server…',
    waiting: 'The dev server is there, the harness is not yet. What keeps it is in the terminal.',
    open: 'No agent is here yet.',
    lost: 'The dev server is gone. This page comes back with it.'
  }[link]
  return <p class="empty">{text}</p>
}

/** The agents that nobody called; the others are shown within the call that they serve. */
function shown({ conversations }: Model): Conversation[] {
  return [...conversations.values()].filter(
    conversation => conversation.parent === undefined && (conversation.live || !hasEnded(conversation))
  )
}
