// What was measured, as a page to read.
import { arch, availableParallelism, cpus, loadavg, platform, totalmem } from 'node:os'
import { contenders } from './contenders.mjs'
import { versionOf } from './folder.mjs'

const micro = ns => (ns / 1000).toFixed(2)
const times = (a, b) => `${(a / b).toFixed(1)} ×`
const round = ms => (ms < 10 ? ms.toFixed(1) : String(Math.round(ms)))

/** A table whose columns are as wide as their widest cell, the first to the left and the others to the right. */
function table(head, rows) {
  const widths = head.map((_, column) => Math.max(3, ...[head, ...rows].map(row => row[column].length)))
  const line = row =>
    `| ${row.map((cell, column) => (column === 0 ? cell.padEnd(widths[0]) : cell.padStart(widths[column]))).join(' | ')} |`
  const rule = `| ${widths.map((width, column) => (column === 0 ? '-'.repeat(width) : `${'-'.repeat(width - 1)}:`)).join(' | ')} |`
  return [line(head), rule, ...rows.map(line)].join('\n')
}

/** One bar for each, as long as its logarithm. */
function chart(bars) {
  const names = Math.max(...bars.map(([name]) => name.length))
  const longest = Math.log(Math.max(...bars.map(([, value]) => value)))
  const bar = value => '█'.repeat(Math.max(1, Math.round((Math.log(Math.max(value, 1.1)) / longest) * 50)))
  return ['```', ...bars.map(([name, value]) => `${name.padEnd(names)}  ${bar(value)} ${round(value)} ms`), '```'].join(
    '\n'
  )
}

function reloadRows(reloads) {
  const [smallest, middle, largest] = [...new Set(reloads.map(({ fillers }) => fillers))]
  return Object.keys(contenders).map(name => {
    const of = fillers => reloads.find(one => one.name === name && one.fillers === fillers)
    const all = [smallest, middle, largest].map(of)
    return [
      name,
      all.map(({ p50 }) => round(p50)).join(' / '),
      all.map(({ p95 }) => round(p95)).join(' / '),
      all.map(({ gap }) => round(gap)).join(' / '),
      all.map(({ boot }) => round(boot)).join(' / '),
      all.map(({ evaluated }) => evaluated).join(' / '),
      String(of(middle).lost),
      String(of(middle).torn),
      of(largest).kept.toFixed(1)
    ]
  })
}

function scopeRows(lines) {
  return lines.map(({ version, scope: s, registry: r }) => [
    version,
    micro(s.raw),
    micro(s.scope),
    times(s.scope, s.raw),
    times(s.scope, s.then),
    times(s.fresh, s.raw),
    times(s.noted, s.raw),
    times(s.scopeCalled, s.rawCalled),
    `${Math.round(s.read)} ns`,
    times(Math.max(s.crowded / s.scope, s.crowdedCalled / s.scopeCalled, s.crowdedRead / s.read), 1),
    `${micro(r.ours)} / ${micro(r.theirs)}`,
    `${micro(r.oursKept)} / ${micro(r.theirsKept)}`
  ])
}

/** The whole page. */
export function page({ lines, reloads, node, edits, pairs }) {
  const packages = Object.entries(contenders).flatMap(([, { package: name }]) =>
    name && name !== 'harness-hmr' ? [`${name} ${versionOf(name)}`] : []
  )
  const machine = `${platform()} ${arch()}, ${availableParallelism()} cores of ${cpus()[0].model.trim()}, ${Math.round(totalmem() / 2 ** 30)} GB`
  const largest = Math.max(...reloads.map(({ fillers }) => fillers))
  return `# Benchmarks

Written by \`npm run bench\`, which installs the peers, runs all of it in a quarter of an hour, and writes this page. Other programs
had the machine at the same time, at a load of ${loadavg()[2].toFixed(0)} in the last quarter of an hour: read the ratios, and no small difference.

${machine}; Node ${node}, ${packages.join(', ')}, dsh-agent ${versionOf('@deepseek-ai/dsh-agent')} on cordis ${versionOf('@deepseek-ai/cordis')}.

## From a save to its code being served

${chart(reloads.filter(({ fillers }) => fillers === largest).map(({ name, p50 }) => [name, p50]))}

Milliseconds, the middle of ${edits} saves, with ${largest} modules beside the provider; the bars are logarithmic.

${table(['', 'p50', 'p95', 'gap', 'boot', 'evaluated', 'lost', 'torn', 'kept'], reloadRows(reloads))}

The same app under each: a provider that drains, one driver that is its consumer, one that lives on in the process, and 0 / 200
/ 1,000 modules beside them. From the moment the file is written: until the new code has served (\`p50\`, \`p95\`); the longest
time without anything served until the next save, the middle of all saves (\`gap\`: what an audit's collection takes, once a
second, is in one of five). Milliseconds to start (\`boot\`); modules evaluated for a save. With 200 modules, of ${pairs} pairs of
saves 0–200 ms apart, those whose last content never came (\`lost\`), and the same of ${pairs / 2} saves that empty the file and
write it 5 ms later (\`torn\`). With 1,000, how many \`AsyncLocalStorage\`s each edit leaves (\`kept\`).

## A boundary

${table(
  [
    'Node',
    'raw µs',
    'scope µs',
    'to raw',
    'to `then`',
    'new value',
    'noted',
    'synchronous',
    '`current()`',
    '1,000 open',
    '`withInitiator`',
    'kept'
  ],
  scopeRows(lines)
)}

An awaited operation in a plain \`AsyncLocalStorage\` and in a \`BoundaryScope\`; their ratio; that to counting open runs by a \`then\`,
which hides unhandled rejections; to raw, with a new value each time; to raw, in a development server's process, which notes where boundaries are
opened; the ratio of a synchronous operation; a read; the worst of these three with 1,000 boundaries open beside it. Then, in µs, a
call of \`ctx.agents.withInitiator\` of the playground / of dsh-agent through a context, and through a reference that is kept.
`
}
