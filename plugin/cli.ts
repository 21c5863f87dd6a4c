#!/usr/bin/env node
/** The command `harness-hmr`: options, what is printed where, and the exit code. */
import { readFileSync } from 'node:fs'
import { cac } from 'cac'
import colors from 'picocolors'
import { numberOf, pathOf, textOf } from './cli/options.ts'
import { progressBar } from './cli/progress.ts'
import { bugReport } from './cli/bug-report.ts'
import { addressOf, connect } from './cli/server.ts'
import { askStatus } from './cli/status.ts'
import { askWhy } from './cli/why.ts'
import { whyLine } from './report/report.ts'
import { runSoak, soakTable } from './soak/start.ts'

const { version } = JSON.parse(readFileSync(new URL('../package.json', import.meta.url), 'utf8')) as { version: string }

const cli = cac('harness-hmr')
const print = (text: string) => process.stdout.write(`${text}\n`)
const URL_OPTION = [
  '--url <url>',
  'the address of the dev server, with its base (default: the one that runs here)'
] as const
/** Ctrl-C. */
const interrupted = new AbortController()

cli
  .command('soak', 'reload a file many times, and fail when something of it is kept or grows')
  .usage('soak --entry <module> --reload <file> --times <n>')
  .option('--entry <module>', 'module that composes the harness (default: the one of the config)')
  .option('--reload <file>', 'file to reload; on disk it stays as it is')
  .option('--times <n>', 'how often', { default: 200 })
  .option('--root <folder>', "Vite's root (default: the one of the config, else the working directory)")
  .option('--config <file>', "Vite's config file (default: the one in the root)")
  .option('--pause <ms>', 'time between two reloads', { default: 10 })
  .option('--max-heap-slope <bytes>', 'fail when the heap grows by more a reload', { default: 1024 })
  .option('--max-boundary-ratio <x>', 'fail when a boundary or an await costs x times as much at the end', {
    default: 1.1
  })
  .option('--verbose', 'show what the harness prints, on stderr')
  .option('--json', 'print one JSON object')
  .example('  harness-hmr soak --entry src/harness.ts --reload src/providers/agents.ts --times 1000')
  .action(async (options: Record<string, unknown>) => {
    const soaked = {
      root: textOf(options, 'root'),
      entry: pathOf(options, 'entry'),
      config: textOf(options, 'config'),
      file: pathOf(options, 'reload', 'the file to reload'),
      times: numberOf(options, 'times', { least: 1, isWhole: true }),
      pause: numberOf(options, 'pause', { least: 0 }),
      maxHeapSlope: numberOf(options, 'maxHeapSlope', { least: 0 }),
      maxBoundaryRatio: numberOf(options, 'maxBoundaryRatio', { least: 0 })
    }
    const bar = progressBar(process.stderr)
    const report = await runSoak(soaked, {
      signal: interrupted.signal,
      progress: ({ stage, done, of }) => bar.show(stage, done / of, `${done} of ${of}`),
      print: options['verbose'] ? text => process.stderr.write(text) : undefined
    }).finally(() => bar.clear())
    print(options['json'] ? JSON.stringify(report) : soakTable(report))
    if (report.failed.length > 0) process.exitCode = 1
    else if (report.vague !== null) process.exitCode = 2
  })

cli
  .command('why', 'ask a running dev server what keeps the generations that are not collected')
  .option(...URL_OPTION)
  .option('--json', 'print one JSON object')
  .action(async (options: Record<string, unknown>) => {
    const bar = progressBar(process.stderr)
    const { root, whys } = await askWhy(addressOf(textOf(options, 'url'), process.cwd()), {
      signal: interrupted.signal,
      progress: ({ stage, fraction }) => bar.show(stage, fraction)
    }).finally(() => bar.clear())
    if (options['json']) print(JSON.stringify({ type: 'whys', root, whys }))
    else print(whys.length > 0 ? whys.map(report => whyLine(report, root)).join('\n') : colors.green('nothing is kept'))
  })

const asked = async (options: Record<string, unknown>, wait: boolean) => {
  const status = await askStatus(addressOf(textOf(options, 'url'), process.cwd()), { signal: interrupted.signal, wait })
  // The newest content does not run.
  if (!status.live) process.exitCode = 1
  return status
}

cli
  .command('status', 'print as JSON what a running dev server does, and whether the newest content runs')
  .option(...URL_OPTION)
  .action(async (options: Record<string, unknown>) => print(JSON.stringify(await asked(options, false), null, 2)))

cli
  .command('last', 'print the report of the last reload as JSON')
  .option(...URL_OPTION)
  .option('--wait', 'look at the files first, and wait until what was saved is reloaded')
  .example('  harness-hmr last --wait')
  .action(async (options: Record<string, unknown>) => {
    const { last, live, error, retained } = await asked(options, options['wait'] === true)
    print(JSON.stringify({ live, ...(error ? { error } : undefined), last, retained }, null, 2))
  })

cli
  .command('report', 'print versions, limits and the last reloads as Markdown, for an issue')
  .option(...URL_OPTION)
  .action(async (options: Record<string, unknown>) => {
    const { signal } = interrupted
    const url = textOf(options, 'url')
    const ask = async () => {
      const server = await connect(addressOf(url, process.cwd()), { signal })
      server.close()
      return server.snapshot
    }
    // Where no server was named, one that does not run is worth a line and no error.
    print(bugReport(process.cwd(), await (url === undefined ? ask().catch(() => undefined) : ask())))
  })

cli.help().version(version)

/** What was typed wrong or could not be done: one line, exit code 1. */
function fail(error: unknown): void {
  if (interrupted.signal.aborted) return
  const { name, message } = error instanceof Error ? error : { name: '', message: String(error) }
  process.stderr.write(`${colors.red('error')} ${message}\n`)
  if (name === 'CACError') process.stderr.write(`See \`harness-hmr --help\`\n`)
  process.exitCode = 1
}

const EXIT_CODES = { SIGINT: 130, SIGTERM: 143 } as const
for (const signal of Object.keys(EXIT_CODES) as (keyof typeof EXIT_CODES)[]) {
  process.on(signal, () => {
    // The second one does not wait for anything.
    if (interrupted.signal.aborted) process.exit(EXIT_CODES[signal])
    process.exitCode = EXIT_CODES[signal]
    interrupted.abort()
  })
}

try {
  const { options, args } = cli.parse(process.argv, { run: false })
  if (cli.matchedCommand) await cli.runMatchedCommand()
  else if (!options['help'] && !options['version']) {
    if (args.length > 0) throw Object.assign(new Error(`unknown command "${args[0]}"`), { name: 'CACError' })
    cli.outputHelp()
    process.exitCode = 1
  }
} catch (error) {
  fail(error)
}
