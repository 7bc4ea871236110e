// What a journal can say. Everything that is written about a thread is one of these, and whoever reads
// a journal (resume, replay, transcripts, the command line) has it as one of these: what nobody wrote is
// refused by `decode` (`journal_unreadable`) instead of being restored as something that happened, so no
// reader has to doubt a shape. Each kind of event is told once, as the check that it passes on its way
// out; the types are made from the checks. A journal of version 1 has the same events: what came later
// is optional or a type of its own.
import {
  type Fault,
  fail,
  getOwn,
  isObject,
  type Json,
  type JsonObject,
  type Outcome,
  ok,
} from '../base/index.ts';
import { type GuardSource, LIMIT_NAMES } from '../flow/index.ts';
import type { Block, BrokenReply, Stop, Usage } from '../llm/index.ts';
import {
  type Answer,
  STATUS_CAUSES,
  type Store,
  type StoredEvent,
  THREAD_STATUSES,
} from '../store/index.ts';

/** Where a value is not what it should be: '' for the value itself. Undefined: it is a `T`. */
type Problem = string | undefined;
interface Check<T> {
  (value: Json | undefined): Problem;
  /** Never there: it ties the check to the type that it checks for. */
  readonly proves?: T;
}
type Proven<C> = C extends Check<infer T> ? T : never;

const is =
  <T>(holds: (value: Json | undefined) => boolean): Check<T> =>
  (value) =>
    holds(value) ? undefined : '';
const text = is<string>((value) => typeof value === 'string');
// Others become null on their way into a journal.
const number = is<number>((value) => Number.isFinite(value));
const flag = is<boolean>((value) => typeof value === 'boolean');
const yes = is<true>((value) => value === true);
const data = is<JsonObject>(isObject);
/** What only another form of the same event has. */
const none = is<never>(() => false);
const json = is<Json>((value) => value !== undefined);
const word = <const T extends string>(...words: readonly T[]): Check<T> =>
  is((value) => words.some((one) => one === value));

const at = (name: string | number, problem: string): string =>
  problem === '' ? `${name}` : `${name}.${problem}`;

const list =
  <T>(item: Check<T>): Check<readonly T[]> =>
  (value) => {
    if (!Array.isArray(value)) return '';
    for (const [index, one] of value.entries()) {
      const problem = item(one);
      if (problem !== undefined) return at(index, problem);
    }
    return undefined;
  };

type Checks<T> = { readonly [name in keyof T]-?: Check<T[name]> };
type Fields<Must, May> = { readonly [name in keyof Must]: Must[name] } & {
  readonly [name in keyof May]?: May[name];
};

/** Fields that must be there, and those that may. What else is there is left alone. */
function fields<Must extends object, May extends object = object>(
  must: Checks<Must>,
  may?: Checks<May>,
): Check<Fields<Must, May>> {
  const needed = Object.entries<Check<unknown>>(must);
  const optional = Object.entries<Check<unknown>>(may ?? {});
  return (value) => {
    if (!isObject(value)) return '';
    for (const [name, check] of needed) {
      const problem = check(getOwn(value, name));
      if (problem !== undefined) return at(name, problem);
    }
    for (const [name, check] of optional) {
      const inner = getOwn(value, name);
      const problem = inner === undefined ? undefined : check(inner);
      if (problem !== undefined) return at(name, problem);
    }
    return undefined;
  };
}

/** The first that fits; the problem told is that of the last one. */
const either =
  <All extends readonly Check<unknown>[]>(...checks: All): Check<Proven<All[number]>> =>
  (value) => {
    let problem: Problem = '';
    for (const check of checks) {
      problem = check(value);
      if (problem === undefined) return undefined;
    }
    return problem;
  };

/** As `packMarks` writes a descriptor. */
export type Marks = { labels: string[]; taint: string[]; sources: string[] };

const status = word(...THREAD_STATUSES);
const limit = word(...LIMIT_NAMES);
const exceeded = word(...LIMIT_NAMES.map((name) => `${name}_exceeded` as const));
const warned = word(...LIMIT_NAMES.map((name) => `${name}_warning` as const));
const marks = fields({
  labels: list(text),
  taint: list(text),
  sources: list(text),
}) as Check<Marks>;
const detail = is<Fault['detail']>((value) => typeof getOwn(value, 'message') === 'string');
const fault: Check<Fault> = fields({ code: text, detail });
/** A model request that came to nothing, and what was done about it. */
const failed = fields({ code: text, detail }, { next: word('wait', 'fallback') });
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
    /** Of the request, for the estimate of the next one. */
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
const broken = fields(
  {
    reason: text,
    message: text,
    completed_tools: list(text),
    discarded_partial: list(fields({ bytes: number }, { name: text })),
  },
  { code: none },
) as Check<BrokenReply & { code?: never }>;
const said = fields({ text, marks });
/** What is wrong with a guard is found when it is compiled. */
const guard = is<GuardSource>(
  (value) => typeof getOwn(value, 'on') === 'string' && isObject(getOwn(value, 'verdict')),
);
/** Rules of directives: of those above a thread, or of one that a call executed. */
const rules = fields({ guards: list(guard) }, { ask_first: yes, no_auto_fix: yes, escalate: yes });
const names = list(text);
const kinds = is<Record<string, string>>(
  (value) => isObject(value) && Object.values(value).every((one) => typeof one === 'string'),
);
/** What its tool said about single fields of it, when it was made. */
const facts = fields(
  {},
  { free_text: names, made: names, identifiers: names, kinds, untrusted: yes, directory: yes },
);
const result = fields(
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
    /** Why the run failed. */
    behind: fields({ code: text, reason: text }),
    text,
  },
  {
    approval: text,
    /** The hash of the directive as it was. */
    before: text,
    /** It was signed. */
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
const approval = either(
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
const about = data;
const call = fields(
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
const hook = fields(
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
const warning = fields({
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
const hookStart = fields(
  { thread_id: text, directive: text, event: text },
  {
    step: text,
    /** Its place among the hooks, and which had fired. */
    index: number,
    fired: list(number),
    /** The call that stands open, and its result. */
    call_id: text,
    held,
    /** What failed besides. */
    fault,
    warning,
  },
);

const item = fields(
  { id: text, source: text, file: text, sha256: text, signature: text },
  /** Whose signature it carries. */
  { key: text },
);
/** What ran and what it could do, at its start; by hash and key, because files change. */
const ran = fields(
  {
    /** The directive, then those that it extends; of the text without its signature line. */
    items: list(item),
    granted: list(
      fields(
        { capability: text },
        /** What policies left of it. */
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

/** By type. Costs and limits are what `packCost` and `packLimits` write. */
const DATA = {
  thread_start: fields(
    { directive: text, version: text, inputs: data, model: text, message: text, limits: data },
    /**
     * `plan`: steps are written down before anything is read; `check`: and not done. `untrusted`: its model
     * knows what strangers wrote by reference. `title`: for people, masked.
     */
    {
      stream: yes,
      rules,
      ran,
      plan: word('run', 'check'),
      untrusted: word('reference'),
      title: text,
    },
  ),
  /**
   * `cause` says why the status was recorded, for programs; `reason` is for people. `owner` is the process
   * that had the lease which was lost.
   */
  status: fields(
    { status },
    { by: text, reason: text, owner: text, cause: word(...STATUS_CAUSES) },
  ),
  user_message: said,
  assistant_message: either(injected, reply),
  tool_call: call,
  tool_result: result,
  /** `fitted`: its answer was cut to what those above had left just then. */
  turn_start: fields(
    { max_tokens: number, model: text, provider: text, key: text },
    { n: number, fitted: yes },
  ),
  /** `charged`: what its request took, with the model that was asked; `unsent`: that was given back. */
  turn_end: either(
    /** `judged`: hooks had their say. */
    fields({ done: yes }, { charged: data, judged: yes }),
    fields({ called_off: yes }, { charged: data, usage, done: none }),
    fields({ withheld: yes }, { charged: data, done: none }),
    fields({ failed: yes }, { charged: data, done: none }),
    fields({ unsent: yes }, { charged: data, done: none }),
  ),
  cost_update: either(fields({ cost: data }), fields({ charged_unread: number, tokens: number })),
  hook_start: hookStart,
  hook,
  hook_state: fields({ fired: list(number) }),
  /** `stage`: who refused. */
  permission_denied: fields(
    { code: text, detail },
    {
      call_id: text,
      stage: word('capability', 'limits', 'policy', 'guard', 'primitive'),
      about,
    },
  ),
  limit: fields(
    { name: word('limit'), code: exceeded, limit, current: number, max: number },
    /** `thread`: the one above whose limit it was. */
    { reserved: number, needed: number, thread: text },
  ),
  warning,
  loop_detected: fault,
  retry: either(
    fields(
      { attempt: number, annealed: yes, version: text, opening: list(opening) },
      { try: none },
    ),
    /** `inputs`: those it begins with instead, as a hook said, with the opening made of them. */
    fields(
      { attempt: number },
      { inputs: data, opening: list(opening), annealed: none, try: none },
    ),
    /** Not of the whole run: one more request for the same turn. */
    fields(
      { try: number, because: text, wait_ms: number, model: text },
      { attempt: none, annealed: none },
    ),
  ),
  model_fallback: fields({ to: text, because: text }),
  spawn: fields({ thread_id: text, directive: text, runner: text, detached: flag }),
  child_end: fields({ thread_id: text, status, reason: text, cost: data }),
  injected_message: fields({ text, marks, by: text }, { reminder: yes }),
  /** `id`: of the signal that was obeyed; absent when a process says that it starts or resumes. */
  signal: fields(
    { kind: text, by: text },
    {
      id: number,
      /** Where `by` is a person: the process that they did it in. */
      process: text,
      reason: text,
      /** The snapshot that a resume goes back to. */
      from: number,
      /** Stopped by a thread above or below it: how it ends, and the fault behind that. */
      stops: word('aborted', 'terminated', 'killed'),
      code: text,
      /** How it had ended, when somebody takes up what has ended. */
      after: status,
      /** The ceilings that a person set with it, as `packLimits` writes them. */
      limits: data,
      /** The model that is asked from here on. */
      model: text,
    },
  ),
  approval,
  /**
   * A plan that passed its check, before any of its steps. `after`: what became of the one before it, in
   * codes, ids and numbers; `needs`: what can be known of it before, for people.
   */
  plan: fields(
    /** `marks`: of all that was read to write it. */
    { number, text, sha256: text, marks },
    { after: fields({ code: text }, { tool: text, step: number }), needs: list(text) },
  ),
  snapshot: fields({ reason: text }, { at: number }),
  error: failed,
  stream_error: either(failed, broken),
  /** What somebody else had noted; nothing is restored from it. */
  logged: fields({ event_type: text, data, by: text }),
  /** `code`: of the fault behind it. */
  thread_end: fields({ status, reason: text }, { code: text, cost: data }),
};

export type EventType = keyof typeof DATA;
export type DataOf<Type extends EventType> = Proven<(typeof DATA)[Type]>;
export type JournalEvent = {
  [type in EventType]: { readonly type: type; readonly data: DataOf<type> };
}[EventType];
export type Reply = Proven<typeof reply>;
export type ToolCall = DataOf<'tool_call'>;
export type ToolResult = DataOf<'tool_result'>;
export type HookStart = DataOf<'hook_start'>;
export type HookAnswered = DataOf<'hook'>;
export type ApprovalNote = DataOf<'approval'>;
export type Proposal = Proven<typeof proposal>;
export type FailedRequest = Proven<typeof failed>;
export type Opening = Proven<typeof opening>;
export type WhatRan = Proven<typeof ran>;
export type Bounds = Proven<typeof bounds>;

/** As it is written: it has its turn, and no number yet. `text`: its data as JSON, secrets and all. */
export type Noted = JournalEvent & { readonly turn: number; readonly text?: string };
/** With its place in the journal. */
export type Recorded = Noted & {
  readonly thread: string;
  readonly seq: number;
  readonly ts: number;
};
export type RecordedOf<Type extends EventType> = Extract<Recorded, { type: Type }>;

/** Without its place. */
export function notedOf(event: Recorded): Noted {
  const { thread: _thread, seq: _seq, ts: _ts, ...noted } = event;
  return noted;
}

/** Without its text, and with other texts in its data, such as masks for secrets; the shape stays. */
export function withTexts(event: Noted, change: (data: JsonObject) => JsonObject): Noted {
  const { text: _, ...plain } = event;
  return { ...plain, data: change(event.data as JsonObject) } as Noted;
}

/** The field of an event that is not what it should be. Its reader and its writer ask the same. */
export function oddField(type: string, data: Json | undefined): string | undefined {
  const problem = Object.hasOwn(DATA, type) ? DATA[type as EventType](data) : 'type';
  return problem === '' ? 'data' : problem;
}

/** `journal_unreadable` {thread, seq, type, field} for what no version of this harness wrote. */
export function decode(event: StoredEvent): Outcome<Recorded> {
  const { thread, seq, type } = event;
  const field = oddField(type, event.data);
  // The only cast on the way out: where the check is.
  if (field === undefined) return ok(event as unknown as Recorded);
  return fail(
    'journal_unreadable',
    `event ${seq} of thread \`${thread}\` cannot be read: \`${field}\` of \`${type}\` is not what it should be`,
    { thread, seq, type, field },
  );
}

/** All of them, or the first that cannot be read. */
export function decodeAll(events: readonly StoredEvent[]): Outcome<Recorded[]> {
  const decoded: Recorded[] = [];
  for (const event of events) {
    const one = decode(event);
    if (!one.ok) return one;
    decoded.push(one.output);
  }
  return ok(decoded);
}

/** Codes of a hook that could not be paid or could not run: it counted as no match. */
export const PASSED_HOOK: ReadonlySet<string> = new Set(['hook_unaffordable', 'hook_unfit']);

export const startOf = (history: readonly Recorded[]): DataOf<'thread_start'> | undefined =>
  history.find((event) => event.type === 'thread_start')?.data;

/** All of it as it is stored, or the events of these types, a page at a time: a journal may be longer than one read. */
export async function readStored(
  store: Pick<Store, 'read'>,
  thread: string,
  types?: readonly EventType[],
): Answer<StoredEvent[]> {
  const events: StoredEvent[] = [];
  for (;;) {
    const after = events.at(-1)?.seq ?? 0;
    const page = await store.read(thread, types ? { after, types } : { after });
    if (!page.ok) return page;
    if (page.output.length === 0) return ok(events);
    events.push(...page.output);
  }
}

/** All of it, checked; the first event that cannot be read is the answer. */
export async function readJournal(
  store: Pick<Store, 'read'>,
  thread: string,
  types?: readonly EventType[],
): Answer<Recorded[]> {
  const stored = await readStored(store, thread, types);
  return stored.ok ? decodeAll(stored.output) : stored;
}
