interface StreamEvent {
  event?: string;
  data: string;
}

const tally = new Map<string, number>();

export function write({ event = 'message' }: StreamEvent): void {
  tally.set(event, (tally.get(event) ?? 0) + 1);
}

export function close(): void {
  console.error(JSON.stringify(Object.fromEntries(tally)));
}
