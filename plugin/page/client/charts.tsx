/** Four numbers over the reloads: what should stay level if nothing leaks. */
import { useEffect, useRef, useState } from 'preact/hooks'
import uPlot from 'uplot'
import type { Snapshot } from '../server/protocol.ts'
import { duration, megabytes, microseconds, whole } from './format.ts'
import { memo } from './memo.ts'
import { totalOf } from './steps.tsx'

interface Series {
  title: string
  points: [reload: number, value: number][]
  format: (value: number) => string
}

/** A chart each, side by side. */
export const Charts = memo(function Charts({ samples, reloads }: Pick<Snapshot, 'samples' | 'reloads'>) {
  const series: Series[] = [
    { title: 'Live storages', points: samples.map(({ reload, storages }) => [reload, storages]), format: whole },
    { title: 'Heap', points: samples.map(({ reload, heap }) => [reload, heap]), format: megabytes },
    {
      title: 'Reload time',
      points: reloads.filter(({ outcome }) => outcome !== 'ignored').map(report => [report.id, totalOf(report)]),
      format: duration
    },
    { title: 'Boundary cost', points: samples.map(({ reload, boundary }) => [reload, boundary]), format: microseconds }
  ]
  return (
    <section class="charts" aria-label="Over the reloads">
      {series.map(one => (
        <Chart key={one.title} {...one} />
      ))}
    </section>
  )
})

function Chart({ title, points, format }: Series) {
  const room = useRef<HTMLDivElement>(null)
  const plot = useRef<uPlot | undefined>(undefined)
  const scheme = useScheme()
  const [under, setUnder] = useState<number>()
  const last = points.at(-1)
  const shown = under === undefined ? last : points[under]
  const data: uPlot.AlignedData = [points.map(([reload]) => reload), points.map(([, value]) => value)]

  useEffect(() => {
    const element = room.current!
    const made = new uPlot(options(element, format, setUnder), data, element)
    plot.current = made
    const resized = new ResizeObserver(() => made.setSize({ width: element.clientWidth, height: HEIGHT }))
    resized.observe(element)
    return () => {
      resized.disconnect()
      made.destroy()
    }
  }, [scheme])
  const state = `${points.length} ${last?.[0]} ${last?.[1]}`
  useEffect(() => plot.current?.setData(data), [state])

  return (
    <figure class="panel chart">
      <figcaption>
        <span class="chart-title">{title}</span>
        <span class="chart-value">{shown ? format(shown[1]) : '–'}</span>
        <span class="chart-at dim">
          {under !== undefined && shown ? `after reload ${shown[0]}` : trend(points, format)}
        </span>
      </figcaption>
      <div class="plot" ref={room} aria-hidden="true" />
    </figure>
  )
}

const HEIGHT = 64

function options(
  element: HTMLElement,
  format: Series['format'],
  under: (index: number | undefined) => void
): uPlot.Options {
  const style = getComputedStyle(element)
  const color = (name: string) => style.getPropertyValue(name).trim()
  return {
    width: element.clientWidth,
    height: HEIGHT,
    padding: [6, 6, 4, 0],
    legend: { show: false },
    cursor: { y: false, points: { size: 6 }, drag: { x: false, y: false } },
    hooks: { setCursor: [({ cursor }) => under(cursor.idx ?? undefined)] },
    scales: { x: { time: false }, y: { range: (_, min, max) => around(min, max) } },
    axes: [
      { show: false },
      {
        size: 46,
        gap: 4,
        space: 26,
        // Half a storage is none.
        incrs: format === whole ? [1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 5000] : undefined,
        stroke: color('--ink-3'),
        font: '10px system-ui',
        grid: { stroke: color('--line'), width: 1 },
        ticks: { show: false },
        values: (_, ticks) => ticks.map(tick => format(tick))
      }
    ],
    series: [
      {},
      {
        stroke: color('--ink-2'),
        width: 1.5,
        fill: color('--fill'),
        points: { show: (_, __, i0, i1) => i1 - i0 < 30, size: 4, fill: color('--ink-2') }
      }
    ]
  }
}

/** From nothing, so that a level line looks level. */
function around(_: number, max: number): [number, number] {
  return [0, max > 0 ? max * 1.25 : 1]
}

function trend(points: Series['points'], format: Series['format']): string {
  if (points.length < 2) return ''
  const values = points.map(([, value]) => value)
  return `${format(Math.min(...values))} to ${format(Math.max(...values))}`
}

/** Changes when the system changes between light and dark: a canvas does not follow by itself. */
function useScheme(): boolean {
  const query = matchMedia('(prefers-color-scheme: dark)')
  const [isDark, setDark] = useState(query.matches)
  useEffect(() => {
    const change = () => setDark(query.matches)
    query.addEventListener('change', change)
    return () => query.removeEventListener('change', change)
  }, [])
  return isDark
}
