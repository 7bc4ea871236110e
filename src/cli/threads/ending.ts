// What a thread has used of each of its limits.
import { getOwn, type JsonObject, plainText } from '../../base/index.ts';
import type { ThreadResult } from '../../harness/index.ts';
import { EXIT, exitCodeOf } from '../terminal/exit-code.ts';
import { type Terminal, visible } from '../terminal/terminal.ts';
import { costText, count, seconds, shorten, statusColour } from './words.ts';

export interface UsedOf {
  name: string;
  used: string;
  max: string;
  /** Who set the limit. */
  from: string;
  /** Between 0 and 1, or above when more was reported than allowed. */
  share: number;
}

const NAMES = ['turns', 'tokens', 'spend', 'tool_calls', 'spawns', 'duration'] as const;

/** In words people read; limits without a value are left out. */
export function amountsOf({ cost, limits }: { cost: JsonObject; limits: JsonObject }): UsedOf[] {
  const currency = plainText(limits.spend_currency) || 'USD';
  return NAMES.flatMap((name) => {
    const max = getOwn(getOwn(limits, name), 'value');
    if (max === undefined || max === null) return [];
    const used = name === 'duration' ? cost.duration_seconds : cost[name];
    const words = (value: unknown): string => {
      if (name === 'spend') return plainText(value ?? '0.00');
      return name === 'duration' ? seconds(value) : count(value);
    };
    const [have, most] = [Number(used ?? 0), Number(max)];
    return [
      {
        name,
        used: words(used),
        max: `${words(max)}${name === 'spend' ? ` ${currency}` : ''}`,
        from: plainText(getOwn(getOwn(limits, name), 'from')),
        share: most > 0 ? have / most : 1,
      },
    ];
  });
}

// How a run ended, in one line with its cost and what to do next, and as an exit code.

const BY_STATUS: Readonly<Record<string, number>> = {
  completed: EXIT.done,
  limit: EXIT.limit,
  denied: EXIT.denied,
  needs_input: EXIT.needsInput,
  // Both wait for a person, or for somebody who answers in a person's name.
  paused: EXIT.needsInput,
  waiting: EXIT.needsInput,
  interrupted: EXIT.interrupted,
};

/** A run that failed because its provider did says so; other failures are just that. */
export function exitCodeOfThread({ status, code }: Pick<ThreadResult, 'status' | 'code'>): number {
  if (status === 'failed' && code !== undefined) {
    const fromCode = exitCodeOf({ code, detail: { message: '' } });
    return fromCode === EXIT.provider ? EXIT.provider : EXIT.failed;
  }
  return BY_STATUS[status] ?? EXIT.failed;
}

/** What helps most now. */
function nextStep({ status, code, thread_id }: ThreadResult): string {
  const show = `\`km threads show ${thread_id}\``;
  switch (status) {
    case 'completed':
      return `look back with ${show}`;
    case 'limit': {
      const name = (code ?? '').replace(/_exceeded$/, '') || 'limit';
      return `see ${show}; raise <${name}> in the directive's <limits>, or let a hook do it`;
    }
    case 'denied':
      return `see ${show}; add the permission to the directive and sign it`;
    case 'needs_input':
    case 'waiting':
      return `see \`km approvals ls\`, then \`km threads resume ${thread_id}\``;
    case 'paused':
    case 'interrupted':
      return `go on with \`km threads resume ${thread_id}\``;
    default:
      return `see ${show}`;
  }
}

/** One line with the cost, on standard error; the result itself is data. */
export function tellEnding(result: ThreadResult, limits: JsonObject, terminal: Terminal): void {
  const status = terminal.paint(statusColour(result.status), result.status);
  const why = result.reason === '' ? '' : `: ${visible(shorten(result.reason, 200))}`;
  const currency = plainText(getOwn(limits, 'spend_currency')) || 'USD';
  terminal.note(`${status}${why} (${costText(result.cost, currency)})`);
}

export const tellNext = (result: ThreadResult, terminal: Terminal): void =>
  terminal.note(terminal.paint('dim', `next: ${nextStep(result)}`));

/** Outputs when the directive has some, else what the model said last. */
export function showResult({ outputs, text }: ThreadResult, terminal: Terminal): void {
  const hasOutputs = typeof outputs === 'object' && Object.keys(outputs ?? {}).length > 0;
  if (hasOutputs) terminal.out(visible(JSON.stringify(outputs, null, 2)));
  else if (text !== '') terminal.out(visible(text.trimEnd()));
}
