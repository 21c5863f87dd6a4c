/** The live page of one dev server: its files, its line among the server's URLs, and what it is told. */
import colors from 'picocolors'
import type { ViteDevServer } from 'vite'
import type { Harness } from '../../harness/harness.ts'
import { PAGE, servePage } from './assets.ts'
import { PageChannel } from './channel.ts'

/** Attaches the page to a server that is being configured; the returned function ends what it does there. */
export function attachPage(server: ViteDevServer, harness: Harness): () => void {
  server.middlewares.use(servePage(server.config))
  const { printUrls } = server
  server.printUrls = () => {
    printUrls()
    const url = pageUrl(server)
    if (url) server.config.logger.info(`  ${colors.green('➜')}  ${colors.bold('Harness')}: ${colors.cyan(url)}`)
  }
  // A restart puts another socket on the same server object.
  const channel = new PageChannel(server.ws, harness, server.config.root)
  return () => channel.close()
}

/** Where the page is found in a browser; `undefined` when the server has no address of its own. */
export function pageUrl({ resolvedUrls }: Pick<ViteDevServer, 'resolvedUrls'>): string | undefined {
  const url = resolvedUrls?.local[0] ?? resolvedUrls?.network[0]
  return url && new URL(`${PAGE}/`, url).href
}
