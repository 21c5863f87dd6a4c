import { createServer, createServerModuleRunner } from 'vite'

const server = await createServer({ configFile: false, logLevel: 'error', server: { middlewareMode: true, ws: false } })
await createServerModuleRunner(server.environments.ssr).import('/hand.js')
