/** The steps of a reload: as a track while one runs, and as a bar of milliseconds afterwards. */
import type { ReloadReport, Step } from '../../report/report.ts'
import { duration } from './format.ts'

/** In their order; the audit comes after. */
export const STEPS: Step[] = ['affected', 'stage', 'close', 'drain', 'disable', 'install']

/** The classes of a reload's outcome; one that has left a generation behind is not simply good. */
export function outcomeClass({ outcome, providers }: Pick<ReloadReport, 'outcome' | 'providers'>): string {
  return `outcome ${outcome} ${providers.some(({ abandoned }) => abandoned) ? 'left' : ''}`
}

/** What a reload took in all. */
export function totalOf({ ms }: ReloadReport): number {
  return Object.values(ms).reduce((sum, n) => sum + n, 0)
}

/** The steps of one reload side by side, each as wide as it took long; `share` is the part of the room that all take. */
export function StepBar({ report, share }: { report: ReloadReport; share: number }) {
  const taken = STEPS.flatMap(step => (report.ms[step] === undefined ? [] : [{ step, ms: report.ms[step] }]))
  const text = taken.map(({ step, ms }) => `${step} ${duration(ms)}`).join(', ')
  return (
    <span class="bar" role="img" aria-label={text} title={text}>
      <span class="bar-inside" style={{ width: `${Math.max(2, share * 100)}%` }}>
        {taken.map(({ step, ms }) => (
          <span
            key={step}
            class={`step ${step} ${report.error?.step === step ? 'broken' : ''}`}
            style={{ flexGrow: ms }}
          />
        ))}
      </span>
    </span>
  )
}
