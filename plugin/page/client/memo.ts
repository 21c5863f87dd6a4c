/** Components that are rendered again only when what they are given has changed: what is told again keeps its identity. */
import { Component, type ComponentChildren, type FunctionComponent, h } from 'preact'

/** The component, rendered again only when one of its properties is another one. */
export function memo<P extends object>(
  component: FunctionComponent<P>
): (props: P & { key?: string | number }) => ComponentChildren {
  class Memo extends Component<P> {
    override shouldComponentUpdate(next: Readonly<P>): boolean {
      const keys = new Set([...Object.keys(this.props), ...Object.keys(next)]) as Set<keyof P & string>
      return [...keys].some(key => this.props[key as never] !== next[key as never])
    }

    override render(): ComponentChildren {
      return h(component, this.props as P)
    }
  }
  return Memo as never // preact takes a class wherever it takes a function
}
