import { useState } from 'preact/hooks'
import { request } from './connection.ts'

/** A box to say something to an agent. What is not sent yet outlives a reload of the page: Vite reloads it after a restart. */
export function PromptBox({ agent, canStop }: { agent: string; canStop: boolean }) {
  const key = `draft ${agent}`
  const [text, setText] = useState(() => sessionStorage.getItem(key) ?? '')
  const [failure, setFailure] = useState('')
  const [isSending, setSending] = useState(false)
  const write = (draft: string) => {
    setText(draft)
    sessionStorage.setItem(key, draft)
  }
  const send = async () => {
    if (text.trim() === '' || isSending) return
    setSending(true)
    setFailure('')
    try {
      await request('prompt', { agent, text })
      write('')
    } catch (error) {
      setFailure((error as Error).message)
    } finally {
      setSending(false)
    }
  }
  return (
    <form
      class="prompt-box"
      onSubmit={event => {
        event.preventDefault()
        void send()
      }}
    >
      <textarea
        rows={1}
        value={text}
        aria-label={`Prompt for ${agent}`}
        placeholder={`Ask ${agent}…`}
        onInput={event => write(event.currentTarget.value)}
        onKeyDown={event => {
          if (event.key !== 'Enter' || event.shiftKey || event.isComposing) return
          event.preventDefault()
          void send()
        }}
      />
      <button type="submit" disabled={isSending || text.trim() === ''}>
        Send
      </button>
      {canStop && (
        <button
          type="button"
          class="stop"
          title="Give up the prompt that is being answered"
          onClick={() => void request('cancel', { agent }).catch(error => setFailure(error.message))}
        >
          Stop
        </button>
      )}
      {failure && (
        <p class="failure" role="alert">
          {failure}
        </p>
      )}
    </form>
  )
}
