/** Where something was called, formatted only when somebody asks. */

/** The stack of whoever called. */
export interface Site {
  stack?: string
}

/** Notes the stack of whoever called `callee`. */
export function captureSite(callee: Function): Site {
  const site: Site = {}
  Error.captureStackTrace(site, callee)
  return site
}

/** The frames of a site, innermost first, as V8 writes them. */
export function frames(site: Site | undefined): string[] {
  const stack: unknown = site?.stack
  // An `Error.prepareStackTrace` of the user's may have made anything of it.
  if (typeof stack !== 'string') return []
  return stack
    .split('\n')
    .slice(1)
    .map(line => line.trim().replace(/^at /, ''))
}
