import type { EditView } from './protocol.ts'

/** An edit that is ready to be made. */
export interface ReadyEdit extends EditView {
  /** Replaces this by that, in the source as its author wrote it. */
  replace?: [find: string, by: string]
}

const IN_REGISTRY = '    this.ctx = ctx\n'

/** The edits that the page offers. Each begins with the source as its author wrote it: they do not add up. */
export const EDITS: readonly ReadyEdit[] = [
  {
    id: 'constant',
    title: 'Change a constant',
    says: 'The lookup tool knows something else about owls. Ask before and after.',
    path: 'providers/basic-tools.ts',
    ask: 'What do you know about owls?',
    replace: ['owls cannot move their eyes', 'owls hear with their whole face']
  },
  {
    id: 'break',
    title: 'Break it',
    says: 'A syntax error in the registry that every agent runs on. It is kept out: the old version goes on.',
    path: 'providers/agents.ts',
    replace: [IN_REGISTRY, '    this.ctx = ctx oops\n']
  },
  {
    id: 'throw',
    title: 'Throw in a constructor',
    says: 'The registry compiles, the old one drains, the new one throws: the old version is installed again.',
    path: 'providers/agents.ts',
    replace: [IN_REGISTRY, `    throw new Error('no registry today')\n${IN_REGISTRY}`]
  },
  {
    id: 'slow',
    title: 'Make a tool slow',
    says: 'Each lookup takes three seconds. Save while one runs: the reload waits for it.',
    path: 'providers/basic-tools.ts',
    ask: 'use lookup rivers then lookup tides',
    replace: [
      `  execute: ({ args }) => FACTS[String(args.topic).toLowerCase()]`,
      `  execute: async ({ args, signal }) => {
    await setTimeout(3000, undefined, { signal })
    return factOf(args)
  }
}

const factOf = (args: Record<string, unknown>) => {
  return FACTS[String(args.topic).toLowerCase()]`
    ]
  },
  {
    id: 'leak',
    title: 'Plant a leak',
    says: 'The registry starts a timer and forgets it. Undo it: the audit finds the generation that the timer keeps.',
    path: 'providers/agents.ts',
    replace: [IN_REGISTRY, `${IN_REGISTRY}    setInterval(() => this.live.size, 60_000)\n`]
  },
  {
    id: 'self-edit',
    title: 'Let an agent do it',
    says: 'An agent edits the tools that it runs on, and uses them in its next step.',
    ask: 'use edit providers/basic-tools.ts underground below the ground then lookup rivers'
  }
]

/** Whether an edit is in place. */
export function isActive({ replace }: ReadyEdit, text: string, original: string): boolean {
  return replace !== undefined && text !== original && text === original.replace(replace[0], () => replace[1])
}

/** The source with an edit made. @throws when it does not fit. */
export function edited({ title, path, replace }: ReadyEdit, source: string): string {
  const [find, by] = replace!
  if (!source.includes(find)) throw new Error(`"${title}" does not fit to ${path} any more`)
  return source.replace(find, () => by)
}
