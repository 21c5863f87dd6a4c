import type { Context } from 'cordis'
import type { AgentRegistry } from './agents.ts'

/** A request as it leaves the host. */
export interface HostRequest {
  path: string
  body: string
  headers: Record<string, string>
}

/** Options of {@link HostTransport}. */
export interface TransportConfig {
  /** Takes the request over; by default it is acknowledged and forgotten. */
  deliver?: (request: HostRequest) => string | Promise<string>
}

declare module 'cordis' {
  interface Context {
    transport: HostTransport
  }
}

/**
 * A stand-in for a transport that knows its host (`ctx.transport`). The header that routes a request is derived here, from
 * the initiating agent: no caller, no model and no tool argument has a say in it.
 */
export class HostTransport {
  static inject = ['agents', 'tools']
  private readonly agents: AgentRegistry
  private readonly deliver: NonNullable<TransportConfig['deliver']>

  constructor(ctx: Context, { deliver = ({ path }) => `delivered to ${path}` }: TransportConfig = {}) {
    this.agents = ctx.agents
    this.deliver = deliver
    ctx.provide('transport', this)
    ctx.tools.register({
      name: 'send',
      description: 'Sends a text to a path of the host.',
      parameters: {
        path: { type: 'string', description: 'where to' },
        body: { type: 'string', description: 'the text' }
      },
      execute: ({ args }) => this.send(String(args.path), String(args.body))
    })
  }

  /**
   * Sends on behalf of the initiating agent.
   * @throws when there is none.
   */
  async send(path: string, body: string): Promise<string> {
    const { session } = this.agents.requireInitiator()
    return this.deliver({ path, body, headers: { 'X-Harness-Session-Id': session.id } })
  }
}

export default HostTransport
