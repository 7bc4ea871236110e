// Turns a draft into a reply. Only a call with complete arguments becomes a part of it. Any other call is
// discarded and reported, because a truncated call can mean the opposite of the intended one.
import {
  type Failure,
  isDeeperThan,
  isObject,
  type JsonObject,
  MAX_DEPTH,
  type Outcome,
  ok,
  parseJson,
  withDetail,
} from '../base/index.ts';
import type { BadArguments, BrokenReply, ModelReply } from './message.ts';
import type { Draft, ReplyDraft } from './reply-draft.ts';
import type { Usage } from './usage.ts';

/** Arguments of a call, or the problem with them. Undefined: they may be truncated. */
type Verdict = { arguments: JsonObject } | { message: string } | undefined;

/**
 * INVARIANT: arguments are accepted only if they can never continue: a closed JSON object, or none at
 * all if the model has finished. A refused reply has no calls.
 */
function judge(draft: Draft, stop: ReplyDraft['stop'], isWhole: boolean): Verdict {
  const { name, text, given: value = {}, isClosed, isFollowed } = draft;
  if (name === '' || !isClosed || stop === 'refusal') return undefined;
  // True if the model completed this call. Otherwise it may have stopped inside of it.
  const isOver = isFollowed || (isWhole && stop !== undefined && stop !== 'max_tokens');
  if (text.trim() === '') {
    if (!isOver) return undefined;
    return isDeeperThan(value, MAX_DEPTH)
      ? { message: `arguments are nested deeper than ${MAX_DEPTH} levels` }
      : { arguments: value };
  }
  const parsed = parseJson(text);
  if (parsed.ok && isObject(parsed.output)) return { arguments: parsed.output };
  if (!isOver) return undefined;
  return {
    message: parsed.ok ? 'arguments must be a JSON object' : parsed.error.detail.message,
  };
}

/** Ids distinguish results, so each call of a reply gets a unique one. */
function uniqueId(id: string, used: Set<string>): string {
  let unique = id;
  for (let count = 1; unique === '' || used.has(unique); count++) {
    unique = `${id || 'call'}_${count}`;
  }
  used.add(unique);
  return unique;
}

interface Sorted {
  content: ModelReply['content'];
  completed: string[];
  /** Length of `content` up to and including the last complete call. */
  cut: number;
  discarded: BrokenReply['discarded_partial'];
  bad: BadArguments[];
}

function sortBlocks({ blocks, stop }: ReplyDraft, isWhole: boolean, by: string): Sorted {
  const used = new Set<string>();
  const sorted: Sorted = { content: [], completed: [], cut: 0, discarded: [], bad: [] };
  const { content } = sorted;
  for (const draft of blocks) {
    const { kind, id, name, text, isRedacted } = draft;
    const seal = by !== '' && draft.seal !== '' && { seal: { by, data: draft.seal } };
    if (kind === 'tool_call') {
      const verdict = judge(draft, stop, isWhole);
      if (verdict === undefined) {
        sorted.discarded.push({ ...(name !== '' && { name }), bytes: Buffer.byteLength(text) });
        continue;
      }
      const own = uniqueId(id, used);
      if ('message' in verdict) {
        sorted.bad.push({ id: own, name, text, message: verdict.message });
        continue;
      }
      content.push({ type: 'tool_call', id: own, name, arguments: verdict.arguments, ...seal });
      sorted.completed.push(`${name}:${own}`);
      sorted.cut = content.length;
    } else if (!isWhole && !draft.isClosed) continue;
    else if (text === '' && !seal) continue;
    else if (kind === 'text') content.push({ type: 'text', text, ...seal });
    else if (kind === 'thinking') {
      content.push({ type: 'thinking', text, ...(isRedacted && { redacted: true }), ...seal });
    }
  }
  return sorted;
}

const calls = (count: number): string => `${count} call${count === 1 ? '' : 's'}`;

function brokenReply(
  { model, reported, blocks }: ReplyDraft,
  { content, cut, completed, discarded, bad }: Sorted,
  usage: Usage,
  fault: Failure,
): Outcome<ModelReply> {
  const { code, detail } = fault.error;
  const lost = { completed_tools: completed, discarded_partial: discarded };
  if (completed.length === 0) {
    const isReported = reported.input_tokens !== undefined;
    // An error instead of an answer is like an error status: no output was produced.
    const isFree = !isReported && blocks.length === 0 && detail.transient !== undefined;
    const facts = { usage: { ...usage }, reported: isReported, ...(isFree && { charged: false }) };
    return withDetail(fault, { ...lost, ...facts, model, sent: true });
  }
  const { reason } = detail;
  const isCut = code === 'stream_incomplete' && typeof reason === 'string';
  const message = `${detail.message}; kept: ${calls(completed.length)}`;
  return ok({
    content: content.slice(0, cut),
    stop: 'tool_use',
    usage,
    model,
    broken: { reason: isCut ? reason : code, message, ...lost },
    ...(bad.length > 0 && { bad_arguments: bad }),
  });
}

/**
 * Returns the reply of a draft. A broken stream with at least one complete call is a reply that is cut to
 * its calls. Without one it is the fault that broke it, with the usage in its detail. A reply that ended
 * inside of a call (`max_tokens`) or was refused is a reply with `broken`. `by`: the model that wrote its seals.
 */
export function finishReply(
  reply: ReplyDraft,
  usage: Usage,
  fault: Failure | undefined,
  by = '',
): Outcome<ModelReply> {
  const sorted = sortBlocks(reply, fault === undefined, by);
  if (fault) return brokenReply(reply, sorted, usage, fault);
  const { content, completed, discarded, bad } = sorted;
  const { model, stop = 'end' } = reply;
  const hasCalls = completed.length + bad.length > 0;
  return ok({
    content,
    stop: hasCalls && stop === 'end' ? 'tool_use' : !hasCalls && stop === 'tool_use' ? 'end' : stop,
    usage,
    model,
    ...(discarded.length > 0 && {
      broken: {
        reason: stop === 'max_tokens' || stop === 'refusal' ? stop : 'incomplete_call',
        message: `the reply ended inside of ${calls(discarded.length)}`,
        completed_tools: completed,
        discarded_partial: discarded,
      },
    }),
    ...(bad.length > 0 && { bad_arguments: bad }),
  });
}
