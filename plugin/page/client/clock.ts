/** A clock that ticks only while somebody looks at something that grows. */
import { useEffect, useState } from 'preact/hooks'

const TICK = 250

/** The server's time, `ahead` of ours, four times a second while `isRunning`. */
export function useNow(isRunning: boolean, ahead: number): number {
  const [now, setNow] = useState(Date.now)
  useEffect(() => {
    if (!isRunning) return undefined
    setNow(Date.now())
    const timer = setInterval(() => document.hidden || setNow(Date.now()), TICK)
    return () => clearInterval(timer)
  }, [isRunning])
  return now + ahead
}
