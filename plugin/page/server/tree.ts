/** The tree of fibers while a reload takes some of them down: nobody wants to see them vanish and come back. Pure. */
import type { FiberNode } from './protocol.ts'

/** The tree as it is, with what was there before the reload in its old place, as something that unloads. */
export function keeping(before: FiberNode[], now: FiberNode[]): FiberNode[] {
  const there = new Map(now.map(node => [node.key, node]))
  const kept = before.map(old => {
    const node = there.get(old.key)
    there.delete(old.key)
    return node ? { ...node, children: keeping(old.children, node.children) } : leaving(old)
  })
  return [...kept, ...there.values()]
}

/** Cordis forgets a fiber when its disposal begins, and does not say when that has ended. */
function leaving(node: FiberNode): FiberNode {
  const total = Object.values(node.states).reduce((sum, n) => sum + n, 0)
  return { ...node, states: { unloading: total }, waitsFor: [], children: node.children.map(leaving) }
}
