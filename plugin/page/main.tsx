import { render } from 'preact'
import { App } from './app.tsx'
import { Store } from './connection.ts'

const store = new Store()
const root = document.querySelector('#app')!
let isDue = false

/** Many messages, one picture: and none while nobody looks. */
store.subscribe(() => {
  if (isDue) return
  isDue = true
  requestAnimationFrame(() => {
    isDue = false
    render(<App view={store.view} command={command => store.command(command)} />, root)
  })
})
render(<App view={store.view} command={command => store.command(command)} />, root)
void store.connect()
