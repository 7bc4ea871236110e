// Parts of the texts that people read about events. Terminal and page show the same text and tone.
import { getOwn, isObject, type Json, plainText, shorten } from '../base/index.ts';
import type { ThreadStatus } from '../store/index.ts';
import type { ApprovalNote, AssistantMessage, HookAnswered, ToolResult } from './shapes.ts';

/** `you` waits for a person, or is one who speaks; `idle` stands still, goes another way or tries again. */
export type EventTone = 'plain' | 'dim' | 'run' | 'you' | 'ok' | 'bad' | 'limit' | 'idle';

export interface EventText {
  mark: string;
  tone: EventTone;
  text: string;
}

/** What is no good news and no waiting is bad. */
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

/** `path=README.md limit=3`: what a call was given, as a person would type it. */
export function argumentsText(given: Json | undefined, max = 100): string {
  const inner = getOwn(given, 'parameters');
  const parameters = isObject(inner) ? inner : isObject(given) ? given : {};
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

/** Texts of a reply, without its calls: those have events of their own. */
export const replyText = (content: AssistantMessage['content']): string =>
  content.map((block) => (block.type === 'text' ? block.text : '')).join('');

/** Denials and limits are events of their own; the error that carries them says it again. */
export const hasOwnLine = (code: string): boolean =>
  code === 'permission_denied' || code.endsWith('_exceeded');

/** What the harness answers for a tool it has said before. */
const SAID_BEFORE: ReadonlySet<string> = new Set(['outcome_unknown', 'loop_detected']);

export function resultLine({ content, is_error }: ToolResult): EventText | undefined {
  const fault = getOwn(content, 'error');
  const code = plainText(getOwn(fault, 'code')) || 'failed';
  if (!is_error || hasOwnLine(code) || SAID_BEFORE.has(code)) return undefined;
  const message = getOwn(fault, 'message') ?? getOwn(getOwn(fault, 'detail'), 'message');
  return line('✗', 'bad', `${code}: ${plainText(message)}`);
}

/** Asked, or what became of it: an answer that is used asks nobody again. */
export function approvalLine(data: ApprovalNote): EventText | undefined {
  const { approval = '', state } = data;
  if (state === 'auto') {
    const text = `directive ${data.directive} is changed, as the policy allows (anneal: auto)`;
    return line('·', 'dim', text);
  }
  const [name, by] = [`approval ${approval}`.trim(), 'by' in data ? ` by ${data.by}` : ''];
  const why = 'why' in data && data.why ? `: ${data.why}` : '';
  if (state === 'denied') return line('✗', 'bad', `${name} refused${by}${why}`);
  if (state === 'expired') return line('!', 'idle', `${name} expired: nobody answered in time`);
  if (state === 'approved') return line('✓', 'ok', `${name} given${by}`);
  if (state === 'used' && data.kind === 'call') return line('✓', 'ok', `${name} given${by}${why}`);
  return state === 'used' || state === 'returned' ? undefined : line('?', 'you', name);
}

/** What came of a hook's answer: the action, as its directive says it, and what that meant there. */
const DEEDS: ReadonlyMap<string, string> = new Map([
  ['proceed', 'continue'],
  ['tell_error', 'continue (the model gets the error)'],
  ['tell_warning', 'continue (the model is warned)'],
  ['run_with_granted', 'continue (with what is granted)'],
  ['raise', 'continue (limit raised)'],
  ['restart', 'retry (from the start)'],
  ['repeat_step', 'retry (the step again)'],
  ['new_attempt', 'retry (a new attempt)'],
  ['skip_step', 'skip (not done)'],
  ['withhold_result', 'skip (result withheld)'],
  ['count_as_done', 'skip (counts as done)'],
  ['ask_person', 'a person is asked'],
  ['wait', 'puts the run on hold'],
]);

/** Tells the event and the decision of a hook. The name of the hook is not in it. */
export const hookDecision = ({ event, deed }: Pick<HookAnswered, 'event' | 'deed'>): string =>
  `at ${event}: ${DEEDS.get(deed) ?? deed}`;
