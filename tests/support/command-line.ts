// Runs the command line inside this process: the same `main` with its output captured, for the many examples of the
// documentation. A separate process for each example would take most of the time of all tests.
import { main } from '../../packages/kernmantle/src/cli/main.ts';

export interface Ran {
  code: number;
  /** Standard output and standard error, in the order of the writes. */
  output: string;
}

interface RanApart extends Ran {
  out: string;
  err: string;
}

/** Splits a line into words like a shell: quotes and backslashes, no expansion. */
export function splitWords(line: string): string[] {
  const words: string[] = [];
  const parts = /(\s+)|'([^']*)'|"((?:\\.|[^"\\])*)"|\\(.)|([^\s'"\\]+)/gy;
  let isInside = false;
  for (const [, space, single, double, escaped, plain] of line.matchAll(parts)) {
    if (space !== undefined) isInside = false;
    else {
      if (!isInside) words.push('');
      isInside = true;
      const text = single ?? double?.replace(/\\(["\\$`])/g, '$1') ?? escaped ?? plain ?? '';
      words[words.length - 1] += text;
    }
  }
  return words;
}

type Write = typeof process.stdout.write;

/** Runs `km` with these words and returns its output, both streams together. */
export async function runCommand(...given: Parameters<typeof runStreams>): Promise<Ran> {
  const { code, output } = await runStreams(...given);
  return { code, output };
}

/**
 * Runs `km` with these words and also returns each stream alone. The run changes the folder and the environment of this
 * process. Standard input is that of this process, so a test about it starts a process.
 */
export async function runStreams(
  words: readonly string[],
  cwd: string,
  env: Readonly<Record<string, string | undefined>>,
): Promise<RanApart> {
  const streams = [process.stdout, process.stderr];
  const before = { cwd: process.cwd(), env: process.env, code: process.exitCode };
  const writes = streams.map((stream) => stream.write);
  const ran = { out: '', err: '', output: '' };
  const listeners = streams.map((stream) => stream.listeners('error'));
  for (const stream of streams) {
    const name = stream === process.stdout ? 'out' : 'err';
    stream.write = (piece: string | Uint8Array) => {
      const text = typeof piece === 'string' ? piece : Buffer.from(piece).toString();
      ran[name] += text;
      ran.output += text;
      return true;
    };
  }
  process.chdir(cwd);
  process.env = { ...env, NO_COLOR: '1' };
  process.exitCode = undefined;
  try {
    await main(words);
    return { code: Number(process.exitCode ?? 0), ...ran };
  } finally {
    process.chdir(before.cwd);
    process.env = before.env;
    process.exitCode = before.code;
    for (const [index, stream] of streams.entries()) {
      stream.write = writes[index] as Write;
      for (const listener of stream.listeners('error')) {
        if (!listeners[index]?.includes(listener)) {
          stream.off('error', listener as (error: Error) => void);
        }
      }
    }
  }
}
