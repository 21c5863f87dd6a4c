import { test } from 'vitest'
import { createApp } from './app.ts'
import { bump, composing, service } from './field-fixture.ts'
test('dbg', async () => {
  const app = await createApp({ 'harness.ts': composing('./agents.ts'), 'agents.ts': service('agents', `const l = () => {}; (globalThis as any).l = l; process.on('SIGUSR2', l)`) })
  await app.next('ready')
  process.on('newListener', () => {})
  const r: any = app.harness.running!.resources
  console.log(r.starters(), process.listenerCount('SIGUSR2'), process.listeners('SIGUSR2').includes((globalThis as any).l))
  const on = (e: any, l: any) => { const { stack } = new Error(); if (e === 'SIGUSR2') console.log(stack) }
  process.on('newListener', on)
  await app.edit('agents.ts', bump)
  console.log(r.starters())
  process.off('newListener', on)
  process.removeAllListeners('SIGUSR2')
})
