// Writes parts of the texts that people read about events. Terminal and page show the same text and tone.
import { getOwn, isObject, type Json, plainText, shorten } from '../base/index.ts';
import type { ThreadStatus } from '../store/index.ts';
import type { ApprovalNote, AssistantMessage, HookAnswered, ToolResult } from './shapes.ts';

/** `you`: waits for a person, or a person wrote it. `idle`: is parked, continues in another way or retries. */
export type EventTone = 'plain' | 'dim' | 'run' | 'you' | 'ok' | 'bad' | 'limit' | 'idle';

export interface EventText {
  mark: string;
  tone: EventTone;
  text: string;
}

/** Tone of each status. An absent status has the tone `bad`. */
export const END_TONES: Partial<Record<ThreadStatus, EventTone>> = {
  completed: 'ok',
  running: 'run',
  spawning: 'run',
  terminating: 'run',
  waiting: 'you',
  needs_input: 'you',
  paused: 'idle',
  interrupted: 'idle',
  terminated: 'idle',
  limit: 'limit',
};

const valueText = (value: Json): string =>
  typeof value === 'string' ? value : JSON.stringify(value);

/** Returns the arguments of a call as a person would type them: `path=README.md limit=3`. */
export function argumentsText(args: Json | undefined, max = 100): string {
  const inner = getOwn(args, 'parameters');
  const parameters = isObject(inner) ? inner : isObject(args) ? args : {};
  const words = Object.entries(parameters).map(
    ([name, value]) => `${name}=${shorten(valueText(value), 60)}`,
  );
  return shorten(words.join(' '), max);
}

export const line = (mark: string, tone: EventTone, text: string): EventText => ({
  mark,
  tone,
  text,
});

interface MessageParts {
  readonly text: string;
  readonly attached?: string;
  readonly file?: { readonly mime: string; readonly bytes: number };
}

/** Returns the text of a message, or the name and the size of a file. */
export function messageText({ text, attached, file }: MessageParts): string {
  if (attached === undefined) return text;
  return file
    ? `file ${attached} (${file.mime}, ${file.bytes} bytes)`
    : `file ${attached}: ${text}`;
}

/** Returns the texts of a reply, without its calls, because calls have their own events. */
export const replyText = (content: AssistantMessage['content']): string =>
  content.map((block) => (block.type === 'text' ? block.text : '')).join('');

/** Returns true for a denial or a limit. It has its own event, so its error needs no text. */
export const hasOwnLine = (code: string): boolean =>
  code === 'permission_denied' || code.endsWith('_exceeded');

/** Codes of errors that another event already reports. */
const REPORTED_ELSEWHERE: ReadonlySet<string> = new Set(['outcome_unknown', 'loop_detected']);

export function resultLine({ content, is_error }: ToolResult): EventText | undefined {
  const fault = getOwn(content, 'error');
  const code = plainText(getOwn(fault, 'code')) || 'failed';
  if (!is_error || hasOwnLine(code) || REPORTED_ELSEWHERE.has(code)) return undefined;
  const message = getOwn(fault, 'message') ?? getOwn(getOwn(fault, 'detail'), 'message');
  return line('✗', 'bad', `${code}: ${plainText(message)}`);
}

/** Returns the line of an approval request or of its decision. `undefined`: this state has no line. */
export function approvalLine(data: ApprovalNote): EventText | undefined {
  const { approval = '', state } = data;
  if (state === 'auto') {
    const text = `directive ${data.directive} was changed; the policy allows it (anneal: auto)`;
    return line('·', 'dim', text);
  }
  const [name, by] = [`approval ${approval}`.trim(), 'by' in data ? ` by ${data.by}` : ''];
  const why = 'why' in data && data.why ? `: ${data.why}` : '';
  if (state === 'denied') return line('✗', 'bad', `${name} denied${by}${why}`);
  if (state === 'expired') return line('!', 'idle', `${name} expired without an answer`);
  if (state === 'approved') return line('✓', 'ok', `${name} approved${by}`);
  if (state === 'used' && data.kind === 'call')
    return line('✓', 'ok', `${name} approved${by}${why}`);
  return state === 'used' || state === 'returned' ? undefined : line('?', 'you', name);
}

/** Text of each decision of a hook: the action of its directive, and the effect at this event. */
const DECISIONS: ReadonlyMap<string, string> = new Map([
  ['proceed', 'continue'],
  ['tell_error', 'continue (the model gets the error)'],
  ['tell_warning', 'continue (the model is warned)'],
  ['run_with_granted', 'continue (with the granted capabilities)'],
  ['raise', 'continue (limit raised)'],
  ['restart', 'retry (from the start)'],
  ['repeat_step', 'retry (the step again)'],
  ['new_attempt', 'retry (a new attempt)'],
  ['next_round', 'retry (another round)'],
  ['skip_step', 'skip (not done)'],
  ['withhold_result', 'skip (result withheld)'],
  ['count_as_done', 'skip (counts as done)'],
  ['ask_person', 'a person is asked'],
  ['wait', 'wait (the run is on hold)'],
]);

/** Returns a text with the event and the decision of a hook, without the name of the hook. */
export const hookDecision = ({
  event,
  decision,
}: Pick<HookAnswered, 'event' | 'decision'>): string =>
  `at ${event}: ${DECISIONS.get(decision) ?? decision}`;
