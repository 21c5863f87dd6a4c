import { Context, type Events } from 'cordis'

/** What one listener of an event is given. */
type EventOf<K extends keyof Events> = Parameters<Events[K]>[0]

/** Takes note of a listener that failed, and of the provider that it belongs to. */
export type Failed = (owner: string, error: unknown) => void

/**
 * Calls every listener of an event at once, and resolves when all have ended; never rejects. `emit` of Cordis stops at the
 * first that throws, leaves the rejection of an asynchronous one to the process, and says of neither whose it was.
 */
export async function callAll<K extends keyof Events & string>(
  ctx: Context,
  audience: object,
  name: K,
  event: EventOf<K>,
  failed: Failed
): Promise<void> {
  const { [Context.filter]: hears } = audience as { [Context.filter]?: (ctx: Context) => boolean }
  const hooks = (ctx.events._hooks[name] ?? []).filter(hook => hook.global || !hears || hears.call(audience, hook.ctx))
  const calls = hooks.map(async ({ ctx, callback }) => {
    try {
      await callback.call(audience, event)
    } catch (error) {
      failed(ctx.fiber.name, error)
    }
  })
  await Promise.all(calls)
}

/** Tells every listener of an event; what one of them does wrong is logged, and nobody else's problem. */
export function tell<K extends keyof Events & string>(
  ctx: Context,
  audience: object,
  name: K,
  event: EventOf<K>,
  about: string
): void {
  void callAll(ctx, audience, name, event, (owner, error) =>
    ctx.logger.warn(`provider "${owner}": its listener of ${name} failed for ${about}: ${textOf(error)}`)
  )
}

/** What an error says, whatever was thrown. */
export function textOf(error: unknown): string {
  try {
    return error instanceof Error ? error.message : String(error)
  } catch {
    return 'an error that cannot be read'
  }
}
