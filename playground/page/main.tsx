import { render } from 'preact'
import { App } from './app.tsx'
import { follow } from './connection.ts'
import { model } from './store.ts'
import './style.css'

follow(model)
render(<App />, document.getElementById('app')!)
