import type { HarnessHmrEvents } from 'harness-hmr'

export type { BeforeReload } from 'harness-hmr'

declare module 'cordis' {
  interface Events extends HarnessHmrEvents {}
}
