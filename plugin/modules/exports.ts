/** What an evaluated module gives to others. */

/** The namespace object of an evaluated module. */
export type Exports = Record<string, unknown>

/** Whether a value is an object or a function, which a WeakRef can hold. */
export function isReference(value: unknown): value is object {
  return typeof value === 'function' || (typeof value === 'object' && value !== null)
}
