// Implements `with { stream: true }`. The output of an operation is printed in pieces, and at its end the
// whole is one effect of kind `run`. The statement around it does not print it again.
import { isDeepStrictEqual } from 'node:util';
import { type Outcome, parseJson } from '@kernmantle/core/base';
import {
  type Descriptor,
  describe,
  descriptorOfFault,
  type MaybePromise,
  mergeAll,
} from '@kernmantle/core/flow';
import { raise } from '../fault.ts';
import { lineOf } from '../problem.ts';
import type { Environment, LiveOutput, Printing } from './environment.ts';
import { unwrap } from './operate.ts';

type OnOutput = (text: string) => void;

/** Runs work that prints. Without `stream` the output is not passed on in pieces. */
export async function streaming<T extends { readonly descriptor: Descriptor }>(
  env: Environment,
  at: number,
  source: string,
  work: (onOutput: OnOutput | undefined) => MaybePromise<Outcome<T>>,
): Promise<T> {
  if (!env.process?.isStream) return unwrap(await work(undefined));
  // INVARIANT: output that a guard can still withhold is never printed in pieces.
  if (env.frame.emit) {
    return raise('invalid_input', 'this operation cannot stream while a guard judges its result');
  }
  const live = env.run.live(lineOf(env.unit, at));
  const outcome = await work((text) => live.push(text));
  const own = outcome.ok ? outcome.output.descriptor : descriptorOfFault(outcome.error);
  const printed = live.end(mergeAll([own, env.frame.influence, describe({ taint: [source] })]));
  if (env.printing) env.printing.streamed = printed;
  return unwrap(outcome);
}

/** True if the text was already printed in pieces. Only the first call returns true. */
export function wasPrinted(printing: Printing | undefined, text: string): boolean {
  const printed = printing?.streamed;
  if (printing === undefined || printed === undefined) return false;
  printing.streamed = undefined;
  return printed === text.trimEnd() || isSameData(printed, text);
}

/** True if both texts are the same JSON. A function returns data, so its result is printed in another layout. */
function isSameData(printed: string, text: string): boolean {
  const [one, two] = [parseJson(printed), parseJson(text)];
  return one.ok && two.ok && isDeepStrictEqual(one.output, two.output);
}

/** Number of open outputs of a run. If there are several, each prints only whole lines. */
export interface LiveCount {
  open: number;
}

/** Maximum length of text that waits for the end of its line. */
const MAX_WAITING = 64 * 1024;
/** Maximum length of the text of the effect. Longer output is still printed in pieces. */
const MAX_TEXT = 16 * 1024 * 1024;

/** Drops trailing blanks, except for the line break of the last line. */
function withoutTrailingBlanks(text: string, isLineOver: boolean): string {
  const trimmed = text.trimEnd();
  if (trimmed === '' && isLineOver) return '';
  return trimmed + (/^\r?\n/.exec(text.slice(trimmed.length))?.[0] ?? '');
}

/** Creates an output. `show` receives the pieces, without trailing blanks; `done` the whole text. */
export function createLive(
  count: LiveCount,
  show: OnOutput | undefined,
  done: (text: string, descriptor: Descriptor) => void,
): LiveOutput {
  const all: string[] = [];
  let waiting = '';
  let isLineOver = true;
  let size = 0;
  count.open += 1;
  const flush = (isLast: boolean): void => {
    const isFull = waiting.length > MAX_WAITING;
    const isWhole = isLast || isFull || count.open === 1;
    const end = isWhole ? waiting.length : waiting.lastIndexOf('\n') + 1;
    const ready = isFull ? waiting : withoutTrailingBlanks(waiting.slice(0, end), isLineOver);
    if (ready === '') return;
    waiting = waiting.slice(ready.length);
    isLineOver = ready.endsWith('\n');
    show?.(ready);
  };
  return {
    push(text) {
      if (text === '') return;
      if (size < MAX_TEXT) all.push(text);
      size += text.length;
      waiting += text;
      flush(false);
    },
    end(descriptor) {
      flush(true);
      count.open -= 1;
      const text = all.join('').trimEnd();
      if (text === '') return undefined;
      if (!isLineOver) show?.('\n');
      done(text, descriptor);
      return text;
    },
  };
}
