/** The live page as a dock of Vite DevTools, where those are installed. */
import { PAGE } from '../page/server/assets.ts'

/** What `@vitejs/devtools-kit` hands to a plugin, as far as it is used here: the kit is no dependency. */
interface DevToolsContext {
  viteConfig?: { base?: string }
  docks?: { register(entry: { id: string; title: string; icon: string; type: 'iframe'; url: string }): unknown }
}

/** The part of a plugin that Vite DevTools look for. */
export function devtoolsDock() {
  return {
    devtools: {
      setup({ docks, viteConfig }: DevToolsContext) {
        const url = `${viteConfig?.base ?? '/'}${PAGE}/`
        docks?.register({
          id: 'harness-hmr',
          title: 'Harness',
          icon: 'ph:arrows-clockwise-duotone',
          type: 'iframe',
          url
        })
      }
    }
  }
}
