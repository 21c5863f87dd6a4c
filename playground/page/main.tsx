import { render } from 'preact'
import { App } from './app.tsx'
import { follow } from './connection.ts'
import { model } from './store.ts'
// oxlint-disable-next-line import/no-unassigned-import -- a stylesheet has nothing to assign
import './style.css'

follow(model)
render(<App />, document.getElementById('app')!)
