import type { AuditReport, ReloadReport } from 'harness-hmr'
import { describe, expect, test } from 'vitest'
import {
  emptyModel,
  takeAgent,
  takeAudit,
  takeDelta,
  takeEvent,
  takeSession,
  takeSnapshot
} from '../../playground/page/model.ts'
import { type Entry, transcript } from '../../playground/page/transcript.ts'
import type { SessionEvent, SessionEventData } from '../../playground/providers/sessions.ts'

type Told = { [K in keyof SessionEventData]: [type: K, data: SessionEventData[K]] }[keyof SessionEventData]

/** Events of a session, one each millisecond. */
function session(...told: Told[]): SessionEvent[] {
  return told.map(([type, data], seq) => ({ seq, time: seq, type, data }) as SessionEvent)
}

const created: Told = ['created', { agentId: 'ada' }]
const prompt = (promptId: string): Told => ['prompt', { promptId, text: `${promptId}?` }]
const turn = (promptId: string): Told => ['turn', { promptId }]
const call = (callId: string): Told => ['step', { promptId: 'a', text: '', calls: [{ callId, name: 'add', args: {} }] }]
const answer: Told = ['answer', { promptId: 'a', text: 'A!' }]

const report = (id: number, time: number) =>
  ({ id, time, outcome: 'reloaded', providers: [] }) as unknown as ReloadReport
const audit = (reload: number, generation: number, outcome: AuditReport['outcome']) =>
  ({ reload, module: 'agents.ts', generation, outcome, retainers: [] }) as unknown as AuditReport

const kinds = (entries: Entry[]) => entries.map(({ kind }) => kind)

describe('a transcript', () => {
  test('puts a reload between what was before and what came after it, and its audit with it', () => {
    const events = session(created, prompt('a'), turn('a'), call('c'), ['call', { callId: 'c' }], answer)
    const entries = transcript({ events, said: undefined }, [report(1, 3.5), report(2, 9)], [audit(2, 1, 'collected')])
    expect(kinds(entries)).toEqual(['prompt', 'step', 'reload', 'answer', 'reload'])
    expect(entries.at(-1)).toMatchObject({ audits: [{ outcome: 'collected' }] })
  })

  test('shows a prompt where it is taken up, and below all else while it waits', () => {
    const before = session(created, prompt('a'), turn('a'), prompt('b'))
    const said = { promptId: 'a', step: 0, text: 'Let' }
    expect(
      transcript({ events: before, said }, [], []).map(entry => [entry.kind, 'text' in entry && entry.text])
    ).toEqual([
      ['prompt', 'a?'],
      ['saying', 'Let'],
      ['queued', 'b?']
    ])
    const after = session(created, prompt('a'), turn('a'), prompt('b'), answer, turn('b'))
    expect(kinds(transcript({ events: after, said: undefined }, [], []))).toEqual(['prompt', 'answer', 'prompt'])
  })

  test.each<[Told[], string]>([
    [[], 'waiting'],
    [[['call', { callId: 'c' }]], 'running'],
    [
      [
        ['call', { callId: 'c' }],
        ['result', { callId: 'c', output: '3' }]
      ],
      'done'
    ],
    [[['result', { callId: 'c', error: 'tool "add" is not registered' }]], 'failed'],
    [
      [['result', { callId: 'c', error: 'tool "add" was interrupted, it may or may not have taken effect' }]],
      'interrupted'
    ]
  ])('tells what became of a tool call: %j', (told, state) => {
    const events = session(created, prompt('a'), turn('a'), call('c'), ...told)
    const step = transcript({ events, said: undefined }, [], []).find(({ kind }) => kind === 'step')
    expect(step).toMatchObject({ calls: [{ state }], rev: told.length })
  })

  test('gives up a prompt that nobody has taken up', () => {
    const events = session(created, prompt('a'), ['cancelled', { promptId: 'a' }])
    expect(kinds(transcript({ events, said: undefined }, [], []))).toEqual(['prompt', 'cancelled'])
  })
})

describe('the model of the page', () => {
  const events = session(created, prompt('a'), turn('a'), answer)
  const known = (count: number) => {
    const model = emptyModel()
    takeSession(model, { id: 'ada', events: events.slice(0, count) })
    return model
  }

  test('asks for a session of which it has missed a piece, and takes nothing twice', () => {
    const model = known(2)
    expect(takeEvent(model, { sessionId: 'ada', event: events[3]! })).toBe('ada')
    expect(takeEvent(model, { sessionId: 'ada', event: events[1]! })).toBeUndefined()
    expect(takeEvent(model, { sessionId: 'ada', event: events[2]! })).toBeUndefined()
    expect(model.conversations.get('ada')!.events).toEqual(events.slice(0, 3))
  })

  test('begins again what an agent says when its step is run again, and ends it with the record', () => {
    const model = known(3)
    const said = () => model.conversations.get('ada')!.said?.text
    const delta = (text: string) => takeDelta(model, { agent: 'ada', promptId: 'a', step: 0, text })
    delta('Le')
    delta('t')
    expect(said()).toBe('Let')
    takeAgent(model, { id: 'ada', parent: undefined, is: 'parked' })
    expect(said()).toBeUndefined()
    delta('Let')
    expect(said()).toBe('Let')
    takeEvent(model, { sessionId: 'ada', event: events[3]! })
    expect(said()).toBeUndefined()
  })

  test('keeps what is being said over a snapshot that does not have it on record yet', () => {
    const model = known(3)
    takeDelta(model, { agent: 'ada', promptId: 'a', step: 0, text: 'Let' })
    const snapshot = { reports: [], audits: [], edits: [], sources: [], providers: [], active: [], cameOf: {} }
    const agents = [{ id: 'ada', parent: undefined }]
    takeSnapshot(model, { ...snapshot, agents, sessions: [{ id: 'ada', events: events.slice(0, 3) }] })
    expect(model.conversations.get('ada')!.said?.text).toBe('Let')
    takeSnapshot(model, { ...snapshot, agents, sessions: [{ id: 'ada', events }] })
    expect(model.conversations.get('ada')!.said).toBeUndefined()
  })

  test('has one verdict for a generation, the newest', () => {
    const model = emptyModel()
    for (const outcome of ['pending', 'retained', 'collected'] as const) takeAudit(model, audit(1, 4, outcome))
    takeAudit(model, audit(2, 5, 'collected'))
    expect(model.audits.map(({ generation, outcome }) => [generation, outcome])).toEqual([
      [4, 'collected'],
      [5, 'collected']
    ])
  })
})
