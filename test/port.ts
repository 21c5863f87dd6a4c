/**
 * Where Vite begins to look for a free port. Given 0 it asks the system for one, lets go of it, and fails when another
 * server takes it meanwhile; given a number it goes on to the next. Below the ports that the system hands out.
 */
export function anyPort(): number {
  return 20_000 + Math.floor(Math.random() * 12_000)
}
