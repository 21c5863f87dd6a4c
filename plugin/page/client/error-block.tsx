/** An error with the lines around it. */
import type { ReportError } from '../../report/report.ts'
import { SourceLink } from './place.tsx'

/** The message, the place and the code frame; all of it is text, whoever wrote it. */
export function ErrorBlock({ error, root }: { error: ReportError; root: string }) {
  const { message, location, frame, stack } = error
  const importers = (error.imports ?? []).slice(1).filter(file => file !== location?.file)
  return (
    <div class="error">
      <p class="error-message">{message}</p>
      {location && <SourceLink at={location} root={root} />}
      {frame && (
        <pre class="frame" tabIndex={0} aria-label="The lines around it">
          {frame.split('\n').map((line, i) => (
            <span key={i} class={line.startsWith('>') ? 'marked' : /^\s*\|/.test(line) ? 'pointer' : ''}>
              {line}
              {'\n'}
            </span>
          ))}
        </pre>
      )}
      {importers.length > 0 && (
        <p class="dim">
          imported by{' '}
          {importers.map(file => (
            <SourceLink key={file} at={{ file }} root={root} />
          ))}
        </p>
      )}
      {!frame && stack && (
        <details>
          <summary>Stack</summary>
          <pre class="frame">{stack}</pre>
        </details>
      )}
    </div>
  )
}
