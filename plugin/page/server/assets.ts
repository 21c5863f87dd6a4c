/** Serves the live page at `<base>/__harness/`. It is a few static files; all that it shows and does goes over the WebSocket. */
import { createHash } from 'node:crypto'
import { readdir, readFile } from 'node:fs/promises'
import type { IncomingMessage, ServerResponse } from 'node:http'
import { extname, join, relative, sep } from 'node:path'
import { fileURLToPath } from 'node:url'
import { build, type Connect, type ResolvedConfig } from 'vite'
import { isSameOrigin } from '../../harness/visitors.ts'

/** Where the page is, below Vite's base. */
export const PAGE = '__harness'

const TYPES: Record<string, string> = {
  '.html': 'text/html; charset=utf-8',
  '.js': 'text/javascript; charset=utf-8',
  '.css': 'text/css; charset=utf-8',
  '.svg': 'image/svg+xml'
}

/**
 * Nothing from elsewhere runs in the page, and no page from elsewhere shows it in a frame, where it could lead a click
 * astray. Vite's client needs a worker and styles of its own.
 */
const POLICY = [
  "default-src 'self'",
  "script-src 'self'",
  "style-src 'self' 'unsafe-inline'",
  "img-src 'self' data:",
  "connect-src 'self' ws: wss:",
  "worker-src 'self' blob:",
  "object-src 'none'",
  "base-uri 'none'",
  "form-action 'none'",
  "frame-ancestors 'self'"
].join('; ')

/** Of every answer. */
const HEADERS = {
  'Content-Security-Policy': POLICY,
  'Cross-Origin-Resource-Policy': 'same-origin',
  'X-Content-Type-Options': 'nosniff',
  'Cache-Control': 'no-cache'
}

interface Asset {
  body: Uint8Array
  type: string
  etag: string
}

const here = new URL('../client/', import.meta.url)
let assets: Promise<Map<string, Asset>> | undefined

/** The middleware that serves the page; the files are read, and where this runs from its source built, when first asked for. */
export function servePage({ base, server }: Pick<ResolvedConfig, 'base' | 'server'>): Connect.NextHandleFunction {
  // A parent server that mounts the middlewares under the base has cut it off.
  const roots = server.middlewareMode ? [base, '/'] : [base]
  return (request, response, pass) => {
    const [path = '', query] = (request.originalUrl ?? request.url ?? '').split('?', 2)
    const local = (request.url ?? '').split('?', 1)[0]!
    const root = roots.find(root => local === `${root}${PAGE}` || local.startsWith(`${root}${PAGE}/`))
    if (root === undefined || (request.method !== 'GET' && request.method !== 'HEAD')) return pass()
    // Whatever `server.cors` lets others read.
    response.removeHeader('Access-Control-Allow-Origin')
    for (const [name, value] of Object.entries(HEADERS)) response.setHeader(name, value)
    if (!isSameOrigin(request.headers)) return void response.writeHead(403).end()
    if (local === `${root}${PAGE}`) {
      response.writeHead(302, { Location: `${path}/${query === undefined ? '' : `?${query}`}` })
      return void response.end()
    }
    const name = local.slice(root.length + PAGE.length + 1) || 'index.html'
    void serveAsset(name, request, response).catch(pass)
  }
}

async function serveAsset(name: string, request: IncomingMessage, response: ServerResponse): Promise<void> {
  assets ??= load()
  try {
    send((await assets).get(name), request, response)
  } catch (error) {
    // The next request tries again.
    assets = undefined
    throw error
  }
}

function send(asset: Asset | undefined, request: IncomingMessage, response: ServerResponse): void {
  if (!asset) return void response.writeHead(404, { 'Content-Type': 'text/plain' }).end('there is no such file')
  const headers = { 'Content-Type': asset.type, ETag: asset.etag }
  if (request.headers['if-none-match'] === asset.etag) return void response.writeHead(304, headers).end()
  response.writeHead(200, { ...headers, 'Content-Length': asset.body.byteLength })
  response.end(request.method === 'HEAD' ? undefined : asset.body)
}

async function load(): Promise<Map<string, Asset>> {
  const files = import.meta.url.endsWith('.ts') ? await built() : await packaged()
  return new Map(
    files.map(([name, body]) => {
      const etag = `"${createHash('sha256').update(body).digest('base64url').slice(0, 16)}"`
      return [name, { body, type: TYPES[extname(name)] ?? 'application/octet-stream', etag }]
    })
  )
}

/** What `npm run build` has put in the folder next to this one. */
async function packaged(): Promise<[string, Uint8Array][]> {
  const folder = fileURLToPath(here)
  const entries = await readdir(folder, { recursive: true, withFileTypes: true })
  return Promise.all(
    entries
      .filter(entry => entry.isFile())
      .map(async ({ parentPath, name }): Promise<[string, Uint8Array]> => {
        const file = join(parentPath, name)
        return [relative(folder, file).split(sep).join('/'), await readFile(file)]
      })
  )
}

/** The same from the page's source, in memory: several processes may do so at once. */
async function built(): Promise<[string, Uint8Array][]> {
  const root = fileURLToPath(here)
  const output = await build({
    root,
    configFile: join(root, 'vite.config.ts'),
    logLevel: 'warn',
    build: { write: false }
  })
  const outputs = Array.isArray(output) ? output : 'output' in output ? [output] : []
  return outputs
    .flatMap(({ output }) => output)
    .map(file => [file.fileName, Buffer.from(file.type === 'chunk' ? file.code : file.source)])
}
