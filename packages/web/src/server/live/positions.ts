// Position of a client: number of the hub, mark of its process, and the last event of each watched
// thread. Only the hub reads this text. A broken text, or one of another process, has no valid
// number, so its client gets a reset.

export interface HubPosition {
  readonly number: number | undefined;
  /** Per thread, the last event that was sent. */
  readonly seqs: ReadonlyMap<string, number>;
}

/** A longer text names more threads than a client can watch. */
const MAX_LENGTH = 8192;
const HEAD = /^([\w-]{1,32})\.(\d{1,15}|x)$/;
const THREAD = /^([\w-]{1,80})\.(\d{1,15})$/;

/** `number` is undefined while the hub has no reader, because changes are then not counted. */
export function writePosition(
  mark: string,
  number: number | undefined,
  seqs: Iterable<readonly [thread: string, seq: number]>,
): string {
  let text = `${mark}.${number ?? 'x'}`;
  for (const [thread, seq] of seqs) text += `,${thread}.${seq}`;
  return text;
}

/** Reads several positions, separated by spaces. The older one wins. */
export function readPosition(text: string, mark: string): HubPosition {
  const seqs = new Map<string, number>();
  let number: number | undefined;
  let isKnown = true;
  for (const one of text.slice(0, MAX_LENGTH).split(' ')) {
    const [head = '', ...threads] = one.split(',');
    const [, by, count = 'x'] = HEAD.exec(head) ?? [];
    if (by !== mark || count === 'x') isKnown = false;
    else number = Math.min(number ?? Number(count), Number(count));
    for (const thread of threads) {
      const [, id, seq] = THREAD.exec(thread) ?? [];
      if (id === undefined) continue;
      seqs.set(id, Math.min(seqs.get(id) ?? Number(seq), Number(seq)));
    }
  }
  return { number: isKnown ? number : undefined, seqs };
}
