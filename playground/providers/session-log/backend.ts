/** Where the lines go. */
export interface LogBackend {
  ids(): string[]
  read(id: string): string[]
  append(id: string, line: string): void
  flush(id: string): Promise<void>
  close(): Promise<void>
}
