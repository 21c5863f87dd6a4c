import { render } from 'preact'
import { App } from './app.tsx'
import { Store } from './connection.ts'
import type { Act } from './state.ts'
import { showTitle } from './title.ts'

/** Rendering takes no more than this share of the time: the rest is for whoever clicks. */
const SHARE = 0.3

const store = new Store()
const root = document.querySelector('#app')!
const act: Act = command => void store.command(command)
let isDue = false
let cost = 0

function draw(): void {
  const start = performance.now()
  isDue = false
  render(<App view={store.view} act={act} />, root)
  showTitle(store.view.told)
  cost = performance.now() - start
}

// Many messages, one picture: and none while nobody looks.
store.subscribe(() => {
  if (isDue) return
  isDue = true
  setTimeout(() => requestAnimationFrame(draw), cost / SHARE)
})
draw()
void store.connect()
