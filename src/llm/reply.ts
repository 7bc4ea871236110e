// From drafts to a reply. Here it is decided which calls exist: only those whose arguments came
// whole. What is in doubt is discarded and reported, because a call that was cut short may mean the
// opposite of what the model was about to write.
import {
  type Failure,
  fail,
  isDeeperThan,
  isObject,
  type JsonObject,
  MAX_DEPTH,
  type Outcome,
  ok,
  parseJson,
  withDetail,
} from '../base/index.ts';
import type { BadArguments, BrokenReply, ModelReply, Stop } from './message.ts';
import type { Draft } from './reply-draft.ts';
import type { Usage } from './usage.ts';

export interface ReplyEnding {
  /** Did the end marker arrive, without a fault before it? */
  isWhole: boolean;
  /** As the provider said; undefined when it did not. */
  stop: Stop | undefined;
  /** What broke it, when it is not whole. */
  fault?: Failure;
  usage: Usage;
  model: string;
}

type Verdict =
  | { state: 'whole'; arguments: JsonObject }
  | { state: 'bad'; message: string }
  | { state: 'partial' };

const PARTIAL: Verdict = { state: 'partial' };

/** Had the model come to the end of this call, or may it have been about to write more? */
function isFinished(draft: Draft, { isWhole, stop }: ReplyEnding): boolean {
  if (draft.isFollowed) return true;
  return draft.isClosed && isWhole && stop !== undefined && stop !== 'max_tokens';
}

function readArguments(text: string): Outcome<JsonObject> {
  const parsed = parseJson(text);
  if (!parsed.ok) return parsed;
  if (isObject(parsed.output)) return ok(parsed.output);
  return fail('invalid_input', 'arguments must be a JSON object');
}

/**
 * INVARIANT: `whole` is said only of arguments that cannot go on: a JSON object that has ended, or
 * nothing at all where the model is known to have finished. A refused reply has no calls.
 */
function judge(draft: Draft, ending: ReplyEnding): Verdict {
  const isOver = isFinished(draft, ending);
  if (draft.name === '' || !draft.isClosed || ending.stop === 'refusal') return PARTIAL;
  if (draft.text.trim() === '') {
    if (!isOver) return PARTIAL;
    const given = draft.given ?? {};
    return isDeeperThan(given, MAX_DEPTH)
      ? { state: 'bad', message: `arguments are nested deeper than ${MAX_DEPTH} levels` }
      : { state: 'whole', arguments: given };
  }
  const read = readArguments(draft.text);
  if (read.ok) return { state: 'whole', arguments: read.output };
  return isOver ? { state: 'bad', message: read.error.detail.message } : PARTIAL;
}

/** Ids tell results apart, so each call of a reply has its own. */
function createIds() {
  const used = new Set<string>();
  return (id: string): string => {
    let unique = id;
    for (let count = 1; unique === '' || used.has(unique); count++) {
      unique = `${id || 'call'}_${count}`;
    }
    used.add(unique);
    return unique;
  };
}

interface Sorted {
  content: ModelReply['content'];
  completed: string[];
  /** Length of `content` up to and including the last complete call. */
  cut: number;
  discarded: BrokenReply['discarded_partial'];
  bad: BadArguments[];
}

function sortDrafts(drafts: readonly Draft[], ending: ReplyEnding): Sorted {
  const idFor = createIds();
  const sorted: Sorted = { content: [], completed: [], cut: 0, discarded: [], bad: [] };
  for (const draft of drafts) {
    const { kind, text, signature, redacted } = draft;
    if (kind === 'tool_call') sortCall(draft, judge(draft, ending), idFor, sorted);
    else if (!ending.isWhole && !draft.isClosed) continue;
    else if (kind === 'text' && text !== '') sorted.content.push({ type: 'text', text });
    else if (kind === 'thinking' && (text !== '' || redacted !== '')) {
      sorted.content.push({
        type: 'thinking',
        text,
        ...(signature !== '' && { signature }),
        ...(redacted !== '' && { redacted }),
      });
    }
  }
  return sorted;
}

function sortCall(
  { id, name, text }: Draft,
  verdict: Verdict,
  idFor: (id: string) => string,
  into: Sorted,
): void {
  if (verdict.state === 'partial') {
    into.discarded.push({ ...(name !== '' && { name }), bytes: Buffer.byteLength(text) });
    return;
  }
  const own = idFor(id);
  if (verdict.state === 'bad') {
    into.bad.push({ id: own, name, text, message: verdict.message });
    return;
  }
  into.content.push({ type: 'tool_call', id: own, name, arguments: verdict.arguments });
  into.completed.push(`${name}:${own}`);
  into.cut = into.content.length;
}

function stopOf({ stop }: ReplyEnding, { completed, bad }: Sorted): Stop {
  const hasCalls = completed.length + bad.length > 0;
  if (hasCalls && (stop === undefined || stop === 'end')) return 'tool_use';
  return stop === undefined || (stop === 'tool_use' && !hasCalls) ? 'end' : stop;
}

const plural = (count: number, word: string): string => `${count} ${word}${count === 1 ? '' : 's'}`;

function brokenReply(ending: ReplyEnding, sorted: Sorted): Outcome<ModelReply> {
  const { usage, model } = ending;
  const { completed, discarded, bad } = sorted;
  const failure =
    ending.fault ?? fail('stream_incomplete', 'the stream ended without its end marker');
  const { code, detail } = failure.error;
  if (completed.length === 0) {
    return withDetail(failure, {
      completed_tools: [],
      discarded_partial: discarded,
      usage: { ...usage },
      model,
      sent: true,
    });
  }
  const isCut = code === 'stream_incomplete' && typeof detail.reason === 'string';
  const reason = isCut ? (detail.reason as string) : code;
  return ok({
    content: sorted.content.slice(0, sorted.cut),
    stop: 'tool_use',
    usage,
    model,
    broken: {
      reason,
      message: `${detail.message}; ${plural(completed.length, 'call')} came whole`,
      completed_tools: completed,
      discarded_partial: discarded,
    },
    ...(bad.length > 0 && { bad_arguments: bad }),
  });
}

/**
 * A broken stream with at least one complete call is a reply cut to its calls; without one it is a
 * failure, whose detail holds what was used. A reply that the model ended inside a call (`max_tokens`)
 * or refused is a reply with `broken`.
 */
export function finishReply(drafts: readonly Draft[], ending: ReplyEnding): Outcome<ModelReply> {
  const sorted = sortDrafts(drafts, ending);
  if (!ending.isWhole) return brokenReply(ending, sorted);
  const { content, completed, discarded, bad } = sorted;
  const { usage, model, stop } = ending;
  return ok({
    content,
    stop: stopOf(ending, sorted),
    usage,
    model,
    ...(discarded.length > 0 && {
      broken: {
        reason: stop === 'max_tokens' || stop === 'refusal' ? stop : 'incomplete_call',
        message: `${plural(discarded.length, 'call')} of the reply did not come whole`,
        completed_tools: completed,
        discarded_partial: discarded,
      },
    }),
    ...(bad.length > 0 && { bad_arguments: bad }),
  });
}
