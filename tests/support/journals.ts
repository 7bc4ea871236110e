// Provides journals for property tests: generated events, generated journals, and journals of end-to-end tests.
import { globSync, readFileSync } from 'node:fs';
import type { Json, JsonObject } from '@kernmantle/core/base';
import {
  type DataOf,
  decode,
  decodeAll,
  type EventType,
  type JournalEvent,
  type Recorded,
} from '@kernmantle/core/journal';
import type { StoredEvent } from '@kernmantle/core/store';
import fc from 'fast-check';
import { must } from './registry.ts';

const text = fc.string();
const count = fc.nat();
const json = fc.jsonValue().map((value): Json => JSON.parse(JSON.stringify(value)) as Json);
const object: fc.Arbitrary<JsonObject> = fc.dictionary(fc.string(), json);
const marks = fc.record({
  labels: fc.array(text),
  taint: fc.array(text),
  sources: fc.array(text),
});
const detail = fc.tuple(object, text).map(([rest, message]) => ({ ...rest, message }));
const fault = fc.record({ code: text, detail });
const usage = fc.record({
  input_tokens: count,
  output_tokens: count,
  cache_read_tokens: count,
  cache_write_tokens: count,
  tokens: count,
  context_tokens: count,
  estimated: fc.boolean(),
});
const block = fc.oneof(
  fc.record({ type: fc.constant('text' as const), text }),
  fc.record({ type: fc.constant('tool_call' as const), id: text, name: text, arguments: object }),
  fc.record({
    type: fc.constant('thinking' as const),
    text,
    seal: fc.record({ by: text, data: text }),
  }),
);
const result = fc.record({ call_id: text, content: json, is_error: fc.boolean(), marks });
const injected = fc.record({ content: fc.array(block), injected: fc.constant(true as const) });
const opening = fc.oneof(
  fc.record({ type: fc.constant('user_message' as const), data: fc.record({ text, marks }) }),
  fc.record({ type: fc.constant('assistant_message' as const), data: injected }),
  fc.record({ type: fc.constant('tool_result' as const), data: result }),
);
const status = fc.constantFrom('running', 'completed', 'failed', 'paused');
const yes = fc.constant(true as const);

/** Data by type. A new type of event needs an entry here. */
const DATA: { [type in EventType]: fc.Arbitrary<DataOf<type>> } = {
  thread_start: fc.record(
    {
      directive: text,
      version: text,
      inputs: object,
      model: text,
      message: text,
      limits: object,
      stream: yes,
    },
    { requiredKeys: ['directive', 'version', 'inputs', 'model', 'message', 'limits'] },
  ),
  status: fc.record({ status, by: text }, { requiredKeys: ['status'] }),
  user_message: fc.record({ text, marks }),
  assistant_message: fc.oneof(
    injected,
    fc.record(
      {
        content: fc.array(block),
        stop: fc.constantFrom('end', 'tool_use', 'max_tokens'),
        usage,
        model: text,
        price_row: text,
        spend: text,
        bytes: count,
        apart: yes,
      },
      {
        requiredKeys: ['content', 'stop', 'usage', 'model', 'price_row', 'spend', 'bytes'],
      },
    ),
  ),
  tool_call: fc.record(
    {
      call_id: text,
      tool: text,
      verb: text,
      effect: fc.constantFrom('read', 'idempotent', 'write'),
      arguments: json,
      volatile: fc.array(text),
      key: text,
      n: count,
      child: text,
    },
    { requiredKeys: ['call_id', 'tool', 'verb', 'effect', 'arguments'] },
  ),
  tool_result: fc.oneof(
    result,
    fc.tuple(result, text).map(([one, tool]) => ({ ...one, tool })),
  ),
  turn_start: fc.record(
    { max_tokens: count, model: text, provider: text, key: text, n: count },
    { requiredKeys: ['max_tokens', 'model', 'provider', 'key'] },
  ),
  turn_end: fc.oneof(
    fc.record({ done: yes }),
    fc.record({ called_off: yes, charged: object }, { requiredKeys: ['called_off'] }),
    fc.record({ withheld: yes }),
    fc.record({ unsent: yes }),
  ),
  cost_update: fc.oneof(
    fc.record({ cost: object }),
    fc.record({ charged_unread: count, tokens: count }),
  ),
  hook_start: fc.record({ thread_id: text, directive: text, event: text, step: text }),
  compaction: fc.record(
    {
      number: count,
      tier: fc.constantFrom('results', 'summary', 'facts'),
      asked: fc.constantFrom('harness', 'model', 'person'),
      marks,
      before: count,
      after: count,
      upto: count,
      cleared: fc.array(count, { maxLength: 3 }),
      summary: text,
    },
    { requiredKeys: ['number', 'tier', 'asked', 'marks', 'before', 'after'] },
  ),
  fork: fc.record({
    from: text,
    at: count,
    by: text,
    model: text,
    limits: object,
    ran: fc.constant({
      items: [],
      granted: [],
      policies: [],
      rules: {},
      sandbox: '',
      provider: '',
      by: { who: '', surface: '', process: '' },
    }),
  }),
  criterion: fc.record(
    { round: count, held: fc.boolean(), index: count, reason: text },
    { requiredKeys: ['round', 'held'] },
  ),
  hook: fc.record(
    {
      directive: text,
      event: fc.constantFrom('before_step', 'after_step', 'error', 'limit', 'warning'),
      step: text,
      decision: text,
      notes: object,
      duration_ms: count,
      fired: fc.array(count),
      bounds: fc.record({ retries: count, skips: fc.dictionary(text, count) }),
      model: text,
      limits: object,
    },
    {
      requiredKeys: [
        ...(['directive', 'event', 'step', 'decision', 'notes'] as const),
        ...(['duration_ms', 'fired', 'bounds'] as const),
      ],
    },
  ),
  hook_state: fc.record({ fired: fc.array(count) }),
  permission_denied: fault,
  limit: fc.constant({
    name: 'limit',
    code: 'turns_exceeded',
    limit: 'turns',
    current: 3,
    max: 3,
  }),
  warning: fc.oneof(
    fc.record({
      name: fc.constant('warning' as const),
      code: fc.constant('spend_warning' as const),
      limit: fc.constant('spend' as const),
      percent: fc.constantFrom(80, 95),
      current: count,
      max: count,
    }),
    fc.record({
      name: fc.constant('warning' as const),
      code: fc.constant('seals_dropped' as const),
      count,
    }),
  ),
  loop_detected: fault,
  retry: fc.oneof(
    fc.record({ attempt: count }),
    fc.record({ attempt: count, annealed: yes, version: text, opening: fc.array(opening) }),
  ),
  model_fallback: fc.record({ to: text, because: text }),
  spawn: fc.record({ thread_id: text, directive: text, runner: text, detached: fc.boolean() }),
  child_end: fc.record({ thread_id: text, status, reason: text, cost: object }),
  injected_message: fc.record(
    { text, marks, by: text, reminder: yes },
    { requiredKeys: ['text', 'marks', 'by'] },
  ),
  signal: fc.record(
    { kind: text, by: text, id: count, reason: text, from: count },
    { requiredKeys: ['kind', 'by'] },
  ),
  approval: fc.oneof(
    fc.record({
      kind: fc.constantFrom('question', 'capability'),
      state: fc.constant('pending' as const),
      approval: text,
      action: text,
    }),
    fc.record({
      kind: fc.constant('capability' as const),
      state: fc.constantFrom('used', 'returned'),
      approval: text,
      call_id: text,
      capability: text,
      scope: object,
      uses_left: count,
    }),
    fc.record({
      kind: fc.constant('call' as const),
      action: fc.constant('anneal' as const),
      state: fc.constantFrom('auto', 'pending'),
      directive: text,
      behind: fc.record({ code: text, reason: text }),
      text,
      before: text,
    }),
  ),
  plan: fc.record(
    {
      number: count,
      text,
      sha256: text,
      marks,
      after: fc.record({ code: text, tool: text, step: count }, { requiredKeys: ['code'] }),
      needs: fc.array(text),
    },
    { requiredKeys: ['number', 'text', 'sha256', 'marks'] },
  ),
  snapshot: fc.record({ reason: text, at: count }, { requiredKeys: ['reason'] }),
  error: fault,
  stream_error: fc.oneof(
    fault,
    fc.record({
      reason: text,
      message: text,
      completed_tools: fc.array(text),
      discarded_partial: fc.array(fc.record({ bytes: count })),
    }),
  ),
  commits_lost: fc.record({
    events: count,
    calls: fc.array(fc.record({ call_id: text, tool: text })),
  }),
  logged: fc.record({ event_type: text, data: object, by: text }),
  thread_end: fc.record(
    { status, reason: text, cost: object },
    { requiredKeys: ['status', 'reason'] },
  ),
};
export const EVENT_TYPES = Object.keys(DATA) as EventType[];
export const arbitraryEvent: fc.Arbitrary<JournalEvent> = fc.oneof(
  ...EVENT_TYPES.map((type) => DATA[type].map((data) => ({ type, data }) as JournalEvent)),
);

/** Appends `more` to each text of the event that allows any text. White space becomes a space. */
export function longTexts({ type, data }: JournalEvent, more: string): JournalEvent {
  const written = JSON.stringify(data);
  const texts = new Set<unknown>();
  JSON.parse(written, (_, value: unknown) => typeof value === 'string' && texts.add(value));
  const lengthened = (): JsonObject =>
    JSON.parse(written, (_, value: unknown) =>
      typeof value === 'string' && texts.has(value) ? value.replace(/\s/g, ' ') + more : value,
    ) as JsonObject;
  const isOdd = (): boolean =>
    !decode({ thread: 't', seq: 1, ts: 1, turn: 0, type, data: lengthened() }).ok;
  // A text with a fixed set of values stays. There are few of them, so the others are tried together.
  const all = [...texts];
  if (isOdd()) texts.clear();
  for (const one of texts.size === 0 ? all : []) {
    texts.add(one);
    if (isOdd()) texts.delete(one);
  }
  return { type, data: lengthened() } as JournalEvent;
}

/** Returns the journals that `npm run journals` wrote, by the name of their file. */
export const recordedJournals = (): Map<string, Recorded[]> =>
  new Map(
    globSync('tests/journals/*.jsonl').map((file) => {
      const lines = readFileSync(file, 'utf8').trimEnd().split('\n');
      return [file, must(decodeAll(lines.map((line) => JSON.parse(line) as StoredEvent)))];
    }),
  );

const MARKS = { labels: ['untrusted'], taint: ['untrusted'], sources: ['tool:a'] };
const USAGE = {
  input_tokens: 3,
  output_tokens: 2,
  cache_read_tokens: 0,
  cache_write_tokens: 0,
  tokens: 5,
  context_tokens: 3,
  estimated: false,
};

/** A call of the journal that is generated. `asks`: its approval request is pending. */
interface MadeCall {
  readonly id: string;
  readonly tool: string;
  state: 'requested' | 'begun' | 'asks' | 'child';
  /** Thread that the call spawned. Absent: none. */
  child?: string;
}

/** A thread that writes its journal. Each move takes a number, which decides between the variants of the move. */
class JournalMaker {
  readonly events: StoredEvent[] = [];
  #turn = 0;
  #count = 0;
  #calls: MadeCall[] = [];
  #hooks: string[] = [];
  #snapshots: number[] = [];
  #isEnded = false;

  constructor() {
    const limits = { turns: { value: 5, from: 'directive' }, spend_currency: 'USD' };
    this.#add({
      type: 'thread_start',
      data: { directive: 'd', version: '1.0.0', inputs: {}, model: 'm', message: '', limits },
    });
    this.#add({ type: 'signal', data: { kind: 'start', by: 'host:1' } });
  }

  #add({ type, data }: JournalEvent): void {
    const seq = this.events.length + 1;
    const plain = JSON.parse(JSON.stringify(data)) as JsonObject;
    this.events.push({ thread: 't', seq, ts: 1000 + seq, turn: this.#turn, type, data: plain });
  }

  #name(prefix: string): string {
    this.#count += 1;
    return `${prefix}${this.#count}`;
  }

  #pick(state: MadeCall['state'], n: number): MadeCall | undefined {
    const calls = this.#calls.filter((call) => call.state === state);
    return calls[n % Math.max(1, calls.length)];
  }

  #intent({ id, tool }: MadeCall, child?: string): void {
    const call = { call_id: id, tool, verb: 'execute', effect: 'write', key: id } as const;
    const data = { ...call, arguments: { item_id: tool, parameters: { action: 'go' } } };
    const about = { path: { labels: ['untrusted'] } };
    this.#add({ type: 'tool_call', data: { ...data, about, ...(child && { child }) } });
  }

  #result(call: MadeCall, code?: string): void {
    const error = { error: { code: code ?? '', detail: { message: 'no' } } };
    const content = code === undefined ? { output: call.id } : error;
    const data = { call_id: call.id, tool: call.tool, content, marks: MARKS };
    this.#add({ type: 'tool_result', data: { ...data, is_error: code !== undefined } });
    this.#calls = this.#calls.filter((one) => one !== call);
  }

  #turnMove(n: number): void {
    if (this.#calls.length > 0) return;
    this.#turn += 1;
    this.#add({
      type: 'turn_start',
      data: { max_tokens: 9, model: 'm', provider: 'p', key: `t:turn:${this.#turn}` },
    });
    if (n % 7 === 6) {
      this.#add({ type: 'error', data: { code: 'timeout', detail: { message: 'late' } } });
      return;
    }
    const calls = Array.from({ length: n % 4 }, () => this.#name('c'));
    const content = calls.map((id) => ({
      type: 'tool_call' as const,
      id,
      name: 'execute',
      arguments: { item_id: 'a/tool', parameters: { action: 'go' } },
    }));
    this.#add({
      type: 'assistant_message',
      data: {
        content: [{ type: 'text', text: 'hello' }, ...content],
        stop: 'tool_use',
        usage: USAGE,
        model: 'm',
        price_row: 'm',
        spend: '0.1',
        bytes: 9,
      },
    });
    this.#add({ type: 'turn_end', data: { done: true } });
    this.#calls.push(...calls.map((id): MadeCall => ({ id, tool: 'a/tool', state: 'requested' })));
  }

  #begin(n: number): void {
    const call = this.#pick('requested', n);
    if (!call) return;
    if (n % 5 === 4) {
      const child = this.#name('child');
      this.#intent(call, child);
      const spawn = { thread_id: child, directive: 'd', runner: 'harness', detached: false };
      this.#add({ type: 'spawn', data: spawn });
      call.state = 'child';
      call.child = child;
      return;
    }
    this.#intent(call);
    call.state = 'begun';
    if (n % 5 !== 3) return;
    call.state = 'asks';
    const ask = { kind: 'call', action: 'ask', state: 'pending' } as const;
    this.#add({ type: 'approval', data: { ...ask, approval: `ap_${call.id}`, call_id: call.id } });
  }

  #deny(n: number): void {
    const detail = { message: 'no' };
    const call = this.#pick('requested', n);
    if (!call || n % 5 === 0) {
      this.#add({ type: 'permission_denied', data: { code: 'permission_denied', detail } });
      return;
    }
    if (n % 2 === 0) this.#intent(call);
    const data = { code: 'permission_denied', detail, call_id: call.id, stage: 'guard' } as const;
    this.#add({ type: 'permission_denied', data });
    this.#result(call, 'permission_denied');
  }

  #answer(n: number): void {
    const call = this.#pick('asks', n);
    if (!call) return;
    const state = (['used', 'denied', 'expired'] as const)[n % 3] ?? 'used';
    const ask = { kind: 'call', action: 'ask', state, by: 'ann' } as const;
    this.#add({ type: 'approval', data: { ...ask, approval: `ap_${call.id}`, call_id: call.id } });
    if (state !== 'used') return this.#result(call, 'permission_denied');
    this.#intent(call);
    call.state = 'begun';
  }

  #finish(n: number): void {
    const call = this.#pick('begun', n) ?? this.#pick('child', n);
    if (!call) return;
    if (call.child !== undefined) {
      const data = { thread_id: call.child, status: 'completed', reason: '', cost: {} } as const;
      this.#add({ type: 'child_end', data });
    }
    this.#result(call, n % 3 === 2 ? 'timeout' : undefined);
  }

  #hook(n: number): void {
    const directive = 'watch';
    const [open] = this.#hooks;
    if (open === undefined) {
      const thread_id = this.#name('hook');
      this.#hooks.push(thread_id);
      this.#add({ type: 'hook_start', data: { thread_id, directive, event: 'error', step: 's' } });
      return;
    }
    this.#hooks = [];
    const bounds = { retries: 0, skips: {} };
    const decision = {
      directive,
      event: 'error',
      step: 's',
      decision: 'proceed',
      notes: {},
    } as const;
    const data = { ...decision, duration_ms: n, fired: [], bounds, thread_id: open };
    const limits = { turns: { value: n, from: n % 2 === 0 ? 'hook' : 'directive' } };
    this.#add({ type: 'hook', data: { ...data, ...(n % 3 === 0 && { limits }) } });
  }

  /** Resumes the thread with another limit, or restarts it by a hook. */
  #resume(n: number): void {
    if (n % 2 === 0) {
      const limits = { turns: { value: n, from: 'resume' } };
      this.#add({ type: 'status', data: { status: 'running' } });
      return this.#add({ type: 'signal', data: { kind: 'resume', by: 'ann', limits } });
    }
    this.#calls = [];
    this.#add({ type: 'retry', data: { attempt: n } });
  }

  /** Ends the process. The next one repeats open calls, or ends them. */
  #crash(n: number): void {
    const lost = { status: 'interrupted', cause: 'process_lost', reason: 'lost' } as const;
    this.#add({ type: 'status', data: lost });
    this.#add({ type: 'signal', data: { kind: 'resume', by: 'host:2' } });
    this.#hooks = [];
    for (const call of this.#calls.filter(({ state }) => state === 'begun')) {
      if (n % 2 === 0) this.#intent(call);
      else this.#result(call, 'outcome_unknown');
    }
  }

  #rewind(n: number): void {
    const from = this.#snapshots[n % Math.max(1, this.#snapshots.length)];
    if (from === undefined || n % 3 === 0) {
      this.#add({ type: 'snapshot', data: { reason: 'now' } });
      this.#snapshots.push(this.events.length);
      return;
    }
    this.#add({ type: 'signal', data: { kind: 'resume', by: 'ann', from } });
    this.#calls = [];
  }

  #end(n: number): void {
    if (n % 4 !== 0) return;
    this.#isEnded = true;
    const failed = { status: 'failed', reason: 'late', code: 'timeout' } as const;
    const data = n % 8 === 0 ? failed : ({ status: 'completed', reason: '' } as const);
    this.#add({ type: 'thread_end', data });
  }

  move(kind: number, n: number): void {
    if (this.#isEnded) return;
    const moves = [
      () => this.#turnMove(n),
      () => this.#begin(n),
      () => this.#finish(n),
      () => this.#deny(n),
      () => this.#answer(n),
      () => this.#hook(n),
      () => this.#crash(n),
      () => this.#rewind(n),
      () => this.#end(n),
      () => this.#resume(n),
    ];
    moves[kind % moves.length]?.();
  }
}

/** Kinds of moves. Turns, intents and results occur more often than others. */
const MOVES = [0, 0, 0, 1, 1, 1, 1, 2, 2, 2, 3, 4, 4, 5, 6, 7, 8, 9];

const moves = fc.array(fc.tuple(fc.constantFrom(...MOVES), fc.nat(99)), {
  maxLength: 80,
  size: 'max',
});

/** Generates valid journals of one thread. A journal can end at any point. */
export const arbitraryJournal: fc.Arbitrary<Recorded[]> = fc
  .tuple(moves, fc.option(fc.integer({ min: 1, max: 200 }), { nil: undefined }))
  .map(([made, end]) => {
    const maker = new JournalMaker();
    for (const [kind, n] of made) maker.move(kind, n);
    return must(decodeAll(maker.events.slice(0, end)));
  });
