// Reads keys and lines that a person types. The terminal is in raw mode during that time: the terminal
// echoes nothing itself, so no echo erases drawn lines, and Ctrl-C belongs to the question.
import { StringDecoder } from 'node:string_decoder';
import { setImmediate as nextRound, setTimeout as sleep } from 'node:timers/promises';

/** Number of rounds of the event loop that read all input which the terminal has buffered. */
const ROUNDS = 3;
const [LEAVE, NO_MORE, BACK, ERASE, KILL, ESCAPE] = [
  '\u0003',
  '\u0004',
  '\b',
  '\u007f',
  '\u0015',
  '\u001b',
];

export interface Keyboard {
  /** Drops all input until now, or until no key came for this many milliseconds. Ctrl-C counts in any case. */
  discard(ms?: number): Promise<void>;
  /** Returns the next key. Undefined if the person cancels or the signal aborts. */
  key(signal?: AbortSignal): Promise<string | undefined>;
  /**
   * Returns the next line, which begins with `text`. Undefined if the person cancels (Ctrl-C, Ctrl-D) or the signal
   * aborts.
   */
  line(signal?: AbortSignal, text?: string): Promise<string | undefined>;
  leave(): void;
  close(): void;
}

export function openKeyboard({ isEchoed = true }: { isEchoed?: boolean } = {}): Keyboard {
  const { stdin, stderr } = process;
  const decoder = new StringDecoder('utf8');
  let [typed, isGone]: [string, boolean] = ['', false];
  let wake = (): void => {};
  const echo = (text: string): void => void (isEchoed && stderr.write(text));
  const onData = (bytes: Buffer): void => {
    typed += decoder.write(bytes);
    wake();
  };
  const leave = (): void => {
    isGone = true;
    wake();
  };

  /** Applies the typed characters. Returns true when the line is complete. */
  function edit(line: string[]): boolean {
    const keys = Array.from(typed);
    for (const [at, key] of keys.entries()) {
      typed = keys.slice(at + 1).join('');
      if (key === '\r' || key === '\n') return true;
      if (key === LEAVE || key === NO_MORE) isGone = true;
      // The rest of the sequence belongs to a key such as an arrow.
      if (key === ESCAPE) typed = '';
      if (isGone || key === ESCAPE) return false;
      if (key === BACK || key === ERASE || key === KILL) {
        const removed = line.splice(key === KILL ? 0 : -1);
        echo('\b \b'.repeat(removed.length));
      } else if (key >= ' ') {
        line.push(key);
        echo(key);
      }
    }
    return false;
  }

  /** Takes the next key. An escape sequence belongs to a key such as an arrow, which answers nothing. */
  function pressed(): string | undefined {
    const [key] = typed;
    typed = key === ESCAPE ? '' : Array.from(typed).slice(1).join('');
    if (key === LEAVE || key === NO_MORE) isGone = true;
    return isGone ? undefined : key;
  }

  /** Returns the first answer of `take`, which reads the typed text. Undefined if the person cancels. */
  async function until(
    signal: AbortSignal | undefined,
    take: () => string | undefined,
  ): Promise<string | undefined> {
    const onAbort = (): void => wake();
    signal?.addEventListener('abort', onAbort);
    try {
      for (;;) {
        const answer = take();
        if (answer !== undefined) return answer;
        if (isGone || signal?.aborted) return undefined;
        await new Promise<void>((resolve) => {
          wake = resolve;
        });
      }
    } finally {
      signal?.removeEventListener('abort', onAbort);
    }
  }

  stdin.setRawMode(true);
  stdin.on('data', onData).once('end', leave).once('close', leave).resume();
  return {
    async discard(ms = 0) {
      const drop = (): void => {
        isGone ||= typed.includes(LEAVE);
        typed = '';
      };
      for (let round = 0; round < ROUNDS; round++) await nextRound();
      drop();
      // A person who still types does not answer.
      const hasLeft = (): boolean => isGone;
      for (let isQuiet = ms === 0; !isQuiet && !hasLeft(); drop()) {
        await sleep(ms);
        isQuiet = typed === '';
      }
    },
    key: (signal) => until(signal, pressed),
    async line(signal, text = '') {
      const line = Array.from(text);
      echo(text);
      try {
        return await until(signal, () => (edit(line) ? line.join('') : undefined));
      } finally {
        stderr.write('\n');
      }
    },
    leave,
    close() {
      stdin.off('data', onData).off('end', leave).off('close', leave);
      stdin.setRawMode(false);
      stdin.pause();
    },
  };
}
