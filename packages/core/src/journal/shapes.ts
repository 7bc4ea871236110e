// Defines the shapes of the parts of events. `events.ts` combines them, with one entry for each type.
import { type Fault, getOwn, isObject } from '../base/index.ts';
import { type GuardSource, LIMIT_NAMES } from '../flow/index.ts';
import type { Block, BrokenReply, FileBlock, Stop, Usage } from '../llm/index.ts';
import { THREAD_STATUSES } from '../store/index.ts';
import {
  type Check,
  data,
  either,
  fields,
  flag,
  is,
  json,
  list,
  none,
  number,
  type Proven,
  text,
  word,
  yes,
} from './check.ts';

/** Form of a descriptor in the journal, written by `packMarks`. */
export type Marks = { labels: string[]; taint: string[]; sources: string[] };

export const status = word(...THREAD_STATUSES);
export const limit = word(...LIMIT_NAMES);
export const exceeded = word(...LIMIT_NAMES.map((name) => `${name}_exceeded` as const));
const warned = word(...LIMIT_NAMES.map((name) => `${name}_warning` as const));
export const marks = fields({
  labels: list(text),
  taint: list(text),
  sources: list(text),
}) as Check<Marks>;
export const detail = is<Fault['detail']>((value) => typeof getOwn(value, 'message') === 'string');
export const fault: Check<Fault> = fields({ code: text, detail });
/** A model request that failed. `next`: the reaction of the harness. Absent: it did not try again. */
export const failed = fields({ code: text, detail }, { next: word('wait', 'fallback') });
export const numbers = is<Record<string, number>>(
  (value) => isObject(value) && Object.values(value).every((one) => Number.isFinite(one)),
);
const usage: Check<Usage> = fields({
  input_tokens: number,
  output_tokens: number,
  cache_read_tokens: number,
  cache_write_tokens: number,
  tokens: number,
  context_tokens: number,
  estimated: flag,
});
const seal = fields({ by: text, data: text });
const block = either(
  fields({ type: word('text'), text }, { seal }),
  fields({ type: word('thinking'), text }, { redacted: yes, seal }),
  fields({ type: word('tool_call'), id: text, name: text, arguments: data }, { seal }),
  fields({ type: word('tool_result'), id: text, content: json }, { is_error: flag }),
) as Check<Block>;
/** A file of the thread. Its bytes are an artifact. */
const file: Check<FileBlock> = fields(
  { type: word('file'), sha256: text, mime: text, bytes: number },
  { name: text, width: number, height: number, pages: number },
);
const content = list(block);
const stop: Check<Stop> = word('end', 'tool_use', 'max_tokens', 'refusal', 'stop_sequence');
/** The call that opens every conversation. The harness made it. */
const injected = fields({ content, injected: yes });
const reply = fields(
  {
    content,
    stop,
    usage,
    model: text,
    price_row: text,
    spend: text,
    /** The size of the request. The estimate of the next request uses it. */
    bytes: number,
  },
  {
    /** A script requested this reply, in its own conversation. */
    apart: yes,
    /** The reply is a draft of the plan with this number. It is `apart`, too. */
    plan: number,
    /** The reply is the summary of the pass with this number. It is `apart`, too. */
    compact: number,
    /** A guard refused the reply. It has a cost, but it is not part of the conversation. */
    withheld: yes,
    /** A hook can still withhold the reply. It counts if its `turn_end` has `done`. */
    open: yes,
    injected: none,
  },
);
export const message = either(injected, reply);
const broken = fields(
  {
    reason: text,
    message: text,
    completed_tools: list(text),
    discarded_partial: list(fields({ bytes: number }, { name: text })),
  },
  { code: none },
) as Check<BrokenReply & { code?: never }>;
/** `attached`: the text is the content of a file with this name, or the file is `file`. No person said it. */
export const attachment = { attached: text, file };
export const markedText = fields({ text, marks }, attachment);
/** The compiler of guards reports their other problems. */
const guard = is<GuardSource>(
  (value) => typeof getOwn(value, 'on') === 'string' && isObject(getOwn(value, 'verdict')),
);
/** Rules of the directives above a thread, or of a directive that a call executed. */
export const rules = fields(
  { guards: list(guard) },
  { ask_first: yes, no_auto_fix: yes, escalate: yes, read_only: yes },
);
/** Rights that a person has left to the directive: to read only, to ask before changes, or all that it declares. */
export const mode = word('read', 'ask', 'declared');
const names = list(text);
const kinds = is<Record<string, string>>(
  (value) => isObject(value) && Object.values(value).every((one) => typeof one === 'string'),
);
/** Facts that the tool declared about single fields of a result, at the time of the call. */
const facts = fields(
  {},
  {
    free_text: names,
    made: names,
    unvouched: names,
    identifiers: names,
    kinds,
    untrusted: yes,
    directory: yes,
  },
);
export const result = fields(
  { call_id: text, content: json, is_error: flag, marks },
  {
    tool: text,
    rules,
    about: data,
    facts,
    /** Files that the result contains. The content names them. */
    files: list(file),
    /** Inputs of the directive that its model gets by reference, each with its marks. */
    given: data,
    /** The call did not start, so the use that its intent took is returned. */
    unused: yes,
  },
);
/** An event that opens a conversation. `retry` contains such events if it changes the directive. */
const opening = either(
  fields({ type: word('user_message'), data: markedText }),
  fields({ type: word('assistant_message'), data: injected }),
  fields({ type: word('tool_result'), data: result }),
);

const capability = { kind: word('capability'), approval: text, capability: text };
/** A changed directive that a person must approve (`pending`), or that the policy allows (`auto`). */
const proposal = fields(
  {
    kind: word('call'),
    action: word('anneal'),
    state: word('auto', 'pending'),
    directive: text,
    behind: fields({ code: text, reason: text }),
    text,
    /** Hash of the directive before the change. */
    before: text,
  },
  {
    approval: text,
    /** The directive was signed before the change. */
    signed: yes,
  },
);
/** An approval request of a guard, a rule or a tier for a call, or its outcome before the call starts. */
const askedCall = fields(
  {
    kind: word('call'),
    action: word('ask'),
    state: word('pending', 'used', 'denied', 'expired'),
    approval: text,
    call_id: text,
  },
  { expires: number, by: text, why: text },
);
export const approval = either(
  fields(
    {
      kind: word('question', 'capability', 'limit'),
      state: word('pending'),
      approval: text,
      action: text,
    },
    /** A call that failed too often, with its result and the marks of the result. */
    { call_id: text, held: json, marks },
  ),
  fields(
    { ...capability, state: word('approved'), by: text },
    /** `expires`: milliseconds since 1970. */
    { scope: data, expires: number, beyond: yes },
  ),
  fields({
    ...capability,
    state: word('used', 'returned'),
    call_id: text,
    scope: data,
    uses_left: number,
  }),
  proposal,
  askedCall,
);

/** For each argument: labels besides those of its sources, and why it is allowed to decide about effects. */
export const about = data;
export const call = fields(
  {
    call_id: text,
    tool: text,
    verb: text,
    effect: word('read', 'idempotent', 'write'),
    arguments: json,
  },
  {
    volatile: list(text),
    key: text,
    /** Number of the use. It shows if a recorded cost already contains this call. */
    n: number,
    /** Id of the thread that the call spawns. */
    child: text,
    /** Target of the call: a path, a host or an id. */
    target: text,
    /** Number of this use, for a tool whose uses are counted. With `key` it identifies the use. */
    use: number,
    /** Number of calls of the same reply that run in parallel. */
    group: number,
    about,
  },
);
/** Number of restarts of the run, and of skips of each step since the step last ran. */
const bounds = fields({ retries: number, skips: numbers });
/** The result of a call that a hook evaluates. */
const resultContent = fields(
  { content: json, is_error: flag, marks },
  { facts, files: list(file) },
);
export const hook = fields(
  {
    directive: text,
    event: word('before_step', 'after_step', 'error', 'limit', 'warning', 'end'),
    step: text,
    decision: text,
    notes: data,
    duration_ms: number,
    /** Indices of the hooks that have fired and are not rearmed. */
    fired: list(number),
    bounds,
  },
  {
    model: text,
    limits: data,
    /** Thread of the hook. Absent: the hook had no thread. */
    thread_id: text,
    /** Call whose result a hook without a thread replaced, and that result. */
    call_id: text,
    held: resultContent,
  },
);
const limitWarning = fields({
  name: word('warning'),
  code: warned,
  limit,
  percent: number,
  current: number,
  max: number,
});
export const warning = either(
  limitWarning,
  /** The model does not get this number of seals, because another model wrote them. */
  fields({ name: word('warning'), code: word('seals_dropped'), count: number }),
);
/**
 * The start of the thread of a hook, with its subject: the checkpoint, and the state of a call, a request or a
 * start there. A process that resumes the thread continues its hook with this data.
 */
export const hookStart = fields(
  { thread_id: text, directive: text, event: text, step: text },
  {
    /** Position of the hook in the list of hooks, and the hooks that had fired. */
    index: number,
    fired: list(number),
    /** The open call and its result. */
    call_id: text,
    held: resultContent,
    fault,
    warning: limitWarning,
  },
);

const item = fields(
  { id: text, source: text, file: text, sha256: text, signature: text },
  { key: text },
);
/** The directive and its rights at the start, with hashes and keys, because files change. */
export const ran = fields(
  {
    /** The directive, then those that it extends. A hash covers the text without the signature line. */
    items: list(item),
    granted: list(
      fields(
        { capability: text },
        {
          scope: data,
          capped: list(fields({ extent: word('whole', 'part'), level: text, message: text })),
        },
      ),
    ),
    /** Policy files in force, the strongest level first. */
    policies: list(fields({ level: text, file: text, signed: flag }, { sha256: text })),
    /** Named rules that were not off. */
    rules: data,
    sandbox: text,
    provider: text,
    /** The person, client or thread that started the run, and its surface. */
    by: fields({ who: text, surface: text, process: text }),
  },
  { guards: list(text) },
);

/** `charged` is the cost of the request, with its model. A request that was not sent costs nothing. */
export const turnEnd = either(
  /** `judged`: the hooks have decided about the reply. */
  fields({ done: yes }, { charged: data, judged: yes }),
  fields({ called_off: yes }, { charged: data, usage, done: none }),
  fields({ withheld: yes }, { charged: data, done: none }),
  fields({ failed: yes }, { charged: data, done: none }),
  fields({ unsent: yes }, { charged: data, done: none }),
);
export const costUpdate = either(
  fields({ cost: data }),
  fields({ charged_unread: number, tokens: number }),
);
export const retry = either(
  fields({ attempt: number, annealed: yes, version: text, opening: list(opening) }, { try: none }),
  /** `inputs`: a hook replaced the inputs. `opening` contains them. */
  fields({ attempt: number }, { inputs: data, opening: list(opening), annealed: none, try: none }),
  /** One more request for the same turn. The run is not restarted. */
  fields(
    { try: number, because: text, wait_ms: number, model: text },
    /** `seals`: from this request on no seal is sent. */
    { seals: word('off'), attempt: none, annealed: none },
  ),
);
export const streamError = either(failed, broken);
export const compaction = fields(
  {
    /** Number of the pass, from 1. */
    number,
    tier: word('results', 'summary', 'facts'),
    asked: word('harness', 'model', 'person'),
    marks,
    /** Estimated tokens of the next request, before and after the pass. */
    before: number,
    after: number,
  },
  {
    /** The person or the thread that asked. */
    by: text,
    /** The last turn that the message of the harness replaces. */
    upto: number,
    /** Numbers of the results that became references. */
    cleared: list(number),
    facts: data,
    summary: text,
    model: text,
    /** Cost of the request for the summary. */
    spend: text,
    /** Why the summary was not used. */
    rejected: text,
  },
);

export type AssistantMessage = Proven<typeof message>;
export type ToolResult = Proven<typeof result>;
export type HookStart = Proven<typeof hookStart>;
export type HookAnswered = Proven<typeof hook>;
export type ApprovalNote = Proven<typeof approval>;
export type Reply = Proven<typeof reply>;
export type Proposal = Proven<typeof proposal>;
export type Opening = Proven<typeof opening>;
export type WhatRan = Proven<typeof ran>;
export type Bounds = Proven<typeof bounds>;
export type Compaction = Proven<typeof compaction>;
