import type { AuditReport, ReloadReport } from 'harness-hmr'

/** What the services named are about to go away for; see {@link Events}. */
export interface BeforeReload {
  /** Names of the context services that go away. */
  services: string[]
  /** Aborts when nobody waits any longer for what is still running. */
  signal: AbortSignal
}

declare module 'cordis' {
  interface Events {
    /** Awaited before providers are replaced, so that drivers can park. */
    'harness-hmr/before-reload'(event: BeforeReload): void | Promise<void>
    /** The providers have been replaced, or the old ones go on. */
    'harness-hmr/after-reload'(): void
    /** How a reload came out. */
    'harness-hmr/report'(report: ReloadReport): void
    /** What became of a generation that was replaced. */
    'harness-hmr/audit'(report: AuditReport): void
  }
}
