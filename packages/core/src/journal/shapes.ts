// Shapes of the parts of events. `events.ts` puts them together, one entry per type.
import { type Fault, getOwn, isObject } from '../base/index.ts';
import { type GuardSource, LIMIT_NAMES } from '../flow/index.ts';
import type { Block, BrokenReply, Stop, Usage } from '../llm/index.ts';
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

/** `packMarks` writes a descriptor in this form. */
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
/** A model request that came to nothing, and what was done about it. */
export const failed = fields({ code: text, detail }, { next: word('wait', 'fallback') });
const numbers = is<Record<string, number>>(
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
const block: Check<Block> = either(
  fields({ type: word('text'), text }),
  fields({ type: word('thinking'), text }, { signature: text, redacted: text }),
  fields({ type: word('tool_call'), id: text, name: text, arguments: data }),
  fields({ type: word('tool_result'), id: text, content: json }, { is_error: flag }),
);
const content = list(block);
const stop: Check<Stop> = word('end', 'tool_use', 'max_tokens', 'refusal', 'stop_sequence');
/** The call that opens every conversation; the harness made it, no model. */
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
    /** Asked by a script, in a conversation of its own. */
    apart: yes,
    /** Apart, too: it is what the plan of this number was to be. */
    plan: number,
    /** A guard refused it: it was paid for and never said. */
    withheld: yes,
    /** A hook may still withhold it: it is said when its `turn_end` says so. */
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
export const said = fields({ text, marks });
/** Problems of a guard are found when it is compiled, not here. */
const guard = is<GuardSource>(
  (value) => typeof getOwn(value, 'on') === 'string' && isObject(getOwn(value, 'verdict')),
);
/** Rules of directives: of those above a thread, or of one that a call executed. */
export const rules = fields(
  { guards: list(guard) },
  { ask_first: yes, no_auto_fix: yes, escalate: yes },
);
const names = list(text);
const kinds = is<Record<string, string>>(
  (value) => isObject(value) && Object.values(value).every((one) => typeof one === 'string'),
);
/** Facts that the tool declared about single fields of a result, at the time of the call. */
const facts = fields(
  {},
  { free_text: names, made: names, identifiers: names, kinds, untrusted: yes, directory: yes },
);
export const result = fields(
  { call_id: text, content: json, is_error: flag, marks },
  {
    tool: text,
    rules,
    about: data,
    facts,
    /** Of the directive: inputs that its model knows by reference, each with its marks. */
    given: data,
    /** It never began: the use that was taken with its intent is there again. */
    unused: yes,
  },
);
/** What a conversation begins with; also inside `retry`, when another directive begins it. */
const opening = either(
  fields({ type: word('user_message'), data: said }),
  fields({ type: word('assistant_message'), data: injected }),
  fields({ type: word('tool_result'), data: result }),
);

const capability = { kind: word('capability'), approval: text, capability: text };
/** A changed directive that somebody has to look at, or that the policy lets through. */
const proposal = fields(
  {
    kind: word('call'),
    action: word('anneal'),
    state: word('auto', 'pending'),
    directive: text,
    behind: fields({ code: text, reason: text }),
    text,
  },
  {
    approval: text,
    /** The hash of the directive as it was. */
    before: text,
    /** The directive was signed before the change. */
    signed: yes,
  },
);
/** A guard, a rule or a tier asks about a call; taken, refused or over before it begins. */
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
    /** A call that failed once too often, what it came to, and the marks of that. */
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

/** By the name of an argument: labels besides those of where it came from, and why it may steer. */
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
    /** Tells whether a recorded cost holds it already. */
    n: number,
    /** The thread that it is going to spawn. */
    child: text,
    /** What it is aimed at: a path, a host, an id. */
    target: text,
    /** Of a tool whose uses are counted: with its key, the name of this use. */
    use: number,
    /** How many calls of its reply were made at once. */
    group: number,
    about,
  },
);
/** Retries of the whole run, and how often each step was skipped since it was last done. */
const bounds = fields({ retries: number, skips: numbers });
/** The result of a call that a hook was asked about. */
const held = fields({ content: json, is_error: flag, marks }, { facts });
export const hook = fields(
  {
    directive: text,
    event: word('before_step', 'after_step', 'error', 'limit', 'warning'),
    step: text,
    deed: text,
    notes: data,
    duration_ms: number,
    /** Which hooks are on the far side of their edge. */
    fired: list(number),
    bounds,
  },
  {
    model: text,
    limits: data,
    /** The hook's own thread, when it had one. */
    thread_id: text,
    /** The call whose result it replaced without a thread of its own, and that result. */
    call_id: text,
    held,
  },
);
export const warning = fields({
  name: word('warning'),
  code: warned,
  limit,
  percent: number,
  current: number,
  max: number,
});
/**
 * A hook's thread is born, and what it is asked about: the checkpoint, and what a call, a request or a
 * start had come to there. Whoever goes on with the thread goes on with its hook, and loses none of it.
 */
export const hookStart = fields(
  { thread_id: text, directive: text, event: text },
  {
    step: text,
    /** Its place among the hooks, and which had fired. */
    index: number,
    fired: list(number),
    /** The call that stands open, and its result. */
    call_id: text,
    held,
    fault,
    warning,
  },
);

const item = fields(
  { id: text, source: text, file: text, sha256: text, signature: text },
  { key: text },
);
/** What ran and what it could do, at its start; by hash and key, because files change. */
export const ran = fields(
  {
    /** The directive, then those that it extends; of the text without its signature line. */
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
    /** Files in force, the strongest level first. */
    policies: list(fields({ level: text, file: text, signed: flag }, { sha256: text })),
    /** Named rules that were not off. */
    rules: data,
    sandbox: text,
    provider: text,
    /** A person, a client or a thread, and where it came in. */
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
  /** `inputs`: a hook replaced the inputs. `opening` is made from them. */
  fields({ attempt: number }, { inputs: data, opening: list(opening), annealed: none, try: none }),
  /** One more request for the same turn. The run is not restarted. */
  fields(
    { try: number, because: text, wait_ms: number, model: text },
    { attempt: none, annealed: none },
  ),
);
export const streamError = either(failed, broken);

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
