// Formats the result of a run: the used part of each limit, the cost, the next step and the exit code.
import {
  durationText,
  EXIT,
  exitCodeOf,
  getOwn,
  type JsonObject,
  plainText,
  shorten,
} from '@kernmantle/core/base';
import type { ThreadResult } from '@kernmantle/core/harness';
import { projectStored, summary } from '@kernmantle/core/journal';
import { allThreads } from '@kernmantle/core/runtime';
import type { Store } from '@kernmantle/core/store';
import { type Terminal, visible } from '../terminal/terminal.ts';
import { costText, count, statusColour } from './status-text.ts';

export interface UsedOf {
  name: string;
  used: string;
  max: string;
  /** Origin of the limit, such as `directive`. */
  from: string;
  /** Used part of the limit, from 0 to 1. Above 1 if a provider reports more than the limit. */
  share: number;
}

const NAMES = ['turns', 'tokens', 'spend', 'tool_calls', 'spawns', 'duration'] as const;

/** Returns the used amount of each limit as text. Limits without a value are omitted. */
export function amountsOf({ cost, limits }: { cost: JsonObject; limits: JsonObject }): UsedOf[] {
  const currency = plainText(limits.spend_currency) || 'USD';
  return NAMES.flatMap((name) => {
    const max = getOwn(getOwn(limits, name), 'value');
    if (max === undefined || max === null) return [];
    // Turns and calls are limited for each attempt.
    const used =
      name === 'duration' ? cost.duration_seconds : (getOwn(cost.attempt, name) ?? cost[name]);
    const words = (value: unknown): string => {
      if (name === 'spend') return plainText(value ?? '0.00');
      return name === 'duration' ? durationText(value) : count(value);
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

const BY_STATUS: Readonly<Record<string, number>> = {
  completed: EXIT.done,
  limit: EXIT.limit,
  denied: EXIT.denied,
  needs_input: EXIT.needsInput,
  // Both wait for a person, or for a program that answers for a person.
  paused: EXIT.needsInput,
  waiting: EXIT.needsInput,
  interrupted: EXIT.interrupted,
};

/** Fault codes of requests. The fault can be of a request to the provider or of any other request. */
const ON_THE_WAY: ReadonlySet<string> = new Set([
  'network_error',
  'timeout',
  'http_error',
  'stream_incomplete',
  'response_too_large',
]);
const LOOK_BACK = 50;

/** Returns the exit code of a run. A run that failed because of its provider has its own code. */
export async function exitCodeOfThread(
  { thread_id, status, code = '' }: Pick<ThreadResult, 'thread_id' | 'status' | 'code'>,
  store: Store,
): Promise<number> {
  if (status !== 'failed') return BY_STATUS[status] ?? EXIT.failed;
  if (exitCodeOf({ code, detail: { message: '' } }) === EXIT.provider) return EXIT.provider;
  if (!ON_THE_WAY.has(code)) return EXIT.failed;
  const events = await store.read(thread_id, { last: LOOK_BACK });
  const last = projectStored(summary, events.ok ? events.output : []);
  return last.isUnanswered ? EXIT.provider : EXIT.failed;
}

/** Counts denied calls and other failed calls of a thread and its descendants. */
export async function countRefused(
  store: Store,
  id: string,
): Promise<{ denied: number; failed: number }> {
  const tree = await allThreads(store, { within: id });
  const rows = tree.ok ? tree.output : [];
  const ids = rows.map((row) => row.id);
  const denied = await store.countEvents(ids, 'permission_denied');
  const failed = rows.reduce((sum, { cost }) => sum + (Number(cost.failed_calls) || 0), 0);
  return { denied: denied.ok ? denied.output : 0, failed };
}

/** Facts besides the result that the last lines of a run print. */
interface Circumstances {
  limits: JsonObject;
  denied: number;
  failed: number;
  /** True if workers resume the thread, so that no person has to. */
  isShared?: boolean;
}

/** Hints by the origin of a limit, because only its origin can raise it. */
const RAISED_BY: Readonly<Record<string, (name: string) => string>> = {
  caller: (name) => `pass a larger \`--${name.replaceAll('_', '-')}\` to the next run`,
  policy: (name) => `\`limits.${name}\` of the policy applies to every run`,
  parent: () => 'the limit is the rest of its parent thread',
  directive: (name) => `raise <${name}> in the directive's <limits>`,
};

function raiseHint(code: string | undefined, limits: JsonObject): string {
  const name = (code ?? '').replace(/_exceeded$/, '') || 'limit';
  const from = plainText(getOwn(getOwn(limits, name), 'from'));
  const set = Object.hasOwn(RAISED_BY, from) ? RAISED_BY[from] : undefined;
  const hint = set?.(name) ?? `it is a default; add <${name}> to the <limits> of the directive`;
  // A hook cannot raise the spend of a root thread.
  const mayRaise = name !== 'spend' && from !== 'policy' && from !== 'parent';
  return `${hint}${mayRaise ? ', or raise it in a hook' : ''}`;
}

/** Returns the most useful next step of the user. */
function nextStep(
  { status, code, thread_id }: ThreadResult,
  { limits, denied, failed, isShared }: Circumstances,
): string {
  const show = `\`km threads show ${thread_id}\``;
  switch (status) {
    case 'completed':
      if (denied > 0) return `see what was denied, and why, with ${show}`;
      return failed > 0 ? `see what failed, and why, with ${show}` : `look back with ${show}`;
    case 'limit': {
      const name = (code ?? '').replace(/_exceeded$/, '') || 'limit';
      // The command line has no option for these limits.
      const hasOption = !/^(limit|context|.*put_tokens)$/.test(name);
      const again = `\`km threads resume ${thread_id} --${name.replaceAll('_', '-')} MORE\``;
      const from = plainText(getOwn(getOwn(limits, name), 'from'));
      const room = getOwn(limits, 'context_compact');
      const isFull = ['off', 'results'].includes(plainText(getOwn(room, 'value')));
      if (name === 'context' && isFull && getOwn(room, 'from') !== 'policy') {
        return `let it make room: \`km threads resume ${thread_id} --context-compact auto\`; ${raiseHint(code, limits)}`;
      }
      const isWindow = name === 'context' && !Object.hasOwn(RAISED_BY, from);
      if (isWindow) {
        return `the context window of the model is full; resume with a model with a larger one: \`km threads resume ${thread_id} --model MODEL\``;
      }
      return `${hasOption ? `resume it with ${again}` : `see ${show}`}; ${raiseHint(code, limits)}`;
    }
    case 'denied':
      return `see ${show}; \`km policy show\` lists what policies deny, and in which file`;
    case 'needs_input':
    case 'waiting':
      return isShared
        ? `answer it on any machine (\`km approvals ls\`); a worker then resumes the thread, and \`km threads wait ${thread_id}\` waits for it`
        : `see \`km approvals ls\`, then \`km threads resume ${thread_id}\``;
    case 'paused':
    case 'interrupted':
      return `resume it with \`km threads resume ${thread_id}\``;
    case 'terminated':
      return `resume it with \`km threads resume ${thread_id}\`; see ${show}`;
    default:
      return `see ${show}`;
  }
}

/** Prints one line to standard error: the status, the cost and the numbers of denied and failed calls. */
export function printResult(
  result: ThreadResult,
  { limits, denied, failed }: Circumstances,
  terminal: Terminal,
): void {
  const status = terminal.paint(statusColour(result.status), result.status);
  const why = result.reason === '' ? '' : `: ${visible(shorten(result.reason, 200))}`;
  const currency = plainText(getOwn(limits, 'spend_currency')) || 'USD';
  const isStarted = result.status !== 'denied';
  const calls = (count: number, word: string): string =>
    count === 0 || !isStarted ? '' : `; ${count} ${count === 1 ? 'call' : 'calls'} ${word}`;
  const refused = `${calls(denied, 'denied')}${calls(failed, 'failed')}`;
  const suffix = refused === '' ? '' : terminal.paint('red', refused);
  terminal.note(`${status}${why} (${costText(result.cost, currency)})${suffix}`);
}

export const printNextStep = (
  result: ThreadResult,
  around: Circumstances,
  terminal: Terminal,
): void => terminal.note(terminal.paint('dim', `next: ${nextStep(result, around)}`));

/** Prints the outputs, or else the last reply. With outputs, the reply goes to standard error. */
export function showResult(
  { outputs, text }: Pick<ThreadResult, 'outputs' | 'text'>,
  terminal: Pick<Terminal, 'out' | 'note'>,
): void {
  const hasOutputs = typeof outputs === 'object' && Object.keys(outputs ?? {}).length > 0;
  const words = visible(text.trim());
  const isOnlyObject = /^\{[^]*\}$/.test(words);
  if (hasOutputs && words !== '' && !isOnlyObject) terminal.note(words);
  if (hasOutputs) terminal.out(visible(JSON.stringify(outputs, null, 2)));
  else if (words !== '') terminal.out(visible(text.trimEnd()));
}
