// Collects the facts that a compaction keeps: what people said, what was done and refused, and what is still open.
// They come from the journal alone, never from an earlier summary. The state is bounded, and a pass reads only the
// events since the last one, so it costs the same after any number of turns.
import {
  getOwn,
  isObject,
  type Json,
  type JsonObject,
  numberAt,
  textAt,
} from '../../base/index.ts';
import { LIMIT_NAMES } from '../../flow/index.ts';
import type { Recorded, RecordedOf } from '../../journal/index.ts';
import { usedAmounts } from '../limits/cost.ts';
import { limitNumber } from '../limits/limit.ts';
import { shapeOf } from '../thread/references.ts';
import type { HarnessPorts, Thread } from '../thread/thread.ts';

type CallData = RecordedOf<'tool_call'>['data'];

/** One line of a section. `stranger`: its name, if untrusted data decided about it. */
interface FactEntry {
  readonly line: Json;
  readonly stranger?: Json | undefined;
}

/** Sections in order of priority, each with its largest number of entries. */
const SECTIONS = {
  outcome_unknown: 100,
  open_requests: 100,
  people_said: 1000,
  files_written: 200,
  approvals: 50,
  limits: 20,
  tools: 200,
  refused: 50,
  children: 100,
  snapshots: 100,
  files_read: 200,
  hosts: 50,
} as const;
type Section = keyof typeof SECTIONS;
const SECTION_NAMES = Object.keys(SECTIONS) as Section[];

const [MAX_WORDS, MAX_SAID] = [2000, 20_000];
const MAX_NAME = 200;

/** Returns the text as one line of at most 200 characters. */
const clean = (text: string): string =>
  text.replace(/[\u0000-\u001f\u007f-\u009f\u2028\u2029]+/g, ' ').slice(0, MAX_NAME);

const REFERENCE = /\$r\d+[^\s"]*/;

/** Facts of one journal. `seq`: the last event that was read. */
export class Facts {
  seq = 0;
  readonly #sections = new Map<Section, Map<string, FactEntry>>();
  readonly #calls = new Map<string, CallData>();
  readonly #kindOf: (tool: string) => string | undefined;
  readonly #isReference: boolean;

  /**
   * `kindOf`: role of the parameter that names the target of a tool. `isReference`: the model knows untrusted text by
   * reference alone.
   */
  constructor(kindOf: (tool: string) => string | undefined, isReference: boolean) {
    [this.#kindOf, this.#isReference] = [kindOf, isReference];
  }

  add(events: readonly Recorded[]): void {
    for (const event of events) {
      if (event.seq <= this.seq) continue;
      this.seq = event.seq;
      this.#apply(event);
    }
  }

  /** Sets an entry of a section. An entry that is set again is the newest. */
  #set(section: Section, key: string, entry: FactEntry): void {
    const entries = this.#sections.get(section) ?? new Map<string, FactEntry>();
    this.#sections.set(section, entries);
    entries.delete(key);
    entries.set(key, entry);
    const [oldest] = entries.keys();
    if (entries.size > SECTIONS[section] && oldest !== undefined) entries.delete(oldest);
  }

  #drop(section: Section, key: string): void {
    this.#sections.get(section)?.delete(key);
  }

  /** Returns a line about a call. It has the target's name, if it has facts, or is this name. */
  #entry(call: CallData | undefined, facts?: JsonObject): FactEntry {
    const { target = '', about, arguments: args = null } = call ?? {};
    const labels = Object.values(about ?? {}).flatMap((one) => getOwn(one, 'labels') ?? []);
    const isForeign = labels.flat().includes('untrusted');
    const written = REFERENCE.exec(JSON.stringify(args))?.[0] ?? '';
    const name = clean(isForeign ? (this.#isReference ? written : '') : target);
    const line = facts ? { ...facts, ...(name && { name }) } : name || null;
    if (!isForeign || this.#isReference || target === '') return { line };
    const stranger = clean(target);
    return { line, stranger: facts ? { event: facts.event ?? 0, name: stranger } : stranger };
  }

  #said(event: number, by: string, text: string): void {
    const line = { event, by: clean(by), text: text.slice(0, MAX_WORDS) };
    this.#set('people_said', `${event}`, { line });
  }

  #apply(event: Recorded): void {
    const { type, data, seq } = event;
    switch (type) {
      case 'injected_message': {
        const isPerson =
          data.marks.taint.includes('src:user') && !data.marks.taint.includes('untrusted');
        // The content of a file is not said by a person.
        const isFile = data.attached !== undefined;
        if (data.by !== 'harness' && isPerson && !isFile) this.#said(seq, data.by, data.text);
        return;
      }
      case 'tool_call':
        this.#calls.set(data.call_id, data);
        return;
      case 'tool_result':
        this.#result(event);
        return;
      case 'permission_denied':
        this.#refused(event);
        return;
      case 'approval':
        this.#approval(event);
        return;
      case 'spawn':
      case 'child_end': {
        const status = type === 'spawn' ? 'running' : data.status;
        this.#set('children', data.thread_id, { line: { thread: data.thread_id, status } });
        return;
      }
      case 'snapshot':
        this.#set('snapshots', `${seq}`, { line: { event: seq } });
        return;
      default:
    }
  }

  #result({ seq, data }: RecordedOf<'tool_result'>): void {
    const call = this.#calls.get(data.call_id);
    this.#calls.delete(data.call_id);
    if (!call) return;
    const code = data.is_error ? getOwn(getOwn(data.content, 'error'), 'code') : undefined;
    const failed = code === 'permission_denied' ? 'denied' : 'failed';
    this.#count(call.tool, data.is_error ? failed : 'done');
    const about = this.#entry(call, { event: seq, tool: clean(call.tool) });
    if (code === 'outcome_unknown') this.#set('outcome_unknown', `${seq}`, about);
    if (call.verb === 'help') this.#answered(seq, data.call_id, data.content);
    if (data.is_error || !call.target) return;
    const kind = this.#kindOf(call.tool);
    const files = call.effect === 'read' ? 'files_read' : 'files_written';
    const section = kind === 'path' ? files : 'hosts';
    if (kind !== undefined) this.#set(section, clean(call.target), this.#entry(call));
  }

  #count(tool: string, word: 'done' | 'failed' | 'denied'): void {
    const line = this.#sections.get('tools')?.get(tool)?.line;
    const past = isObject(line) ? line : { tool: clean(tool) };
    this.#set('tools', tool, { line: { ...past, [word]: (numberAt(past, word) ?? 0) + 1 } });
  }

  /** Keeps the answer of a person to a question of the model. */
  #answered(seq: number, call: string, content: Json): void {
    this.#drop('open_requests', call);
    const words = [textAt(content, 'answer'), textAt(content, 'why')];
    const text = words.filter((one) => one !== '').join('\n');
    if (text !== '' && getOwn(content, 'decision') !== undefined) this.#said(seq, 'answer', text);
  }

  #refused({ seq, data }: RecordedOf<'permission_denied'>): void {
    const call = this.#calls.get(data.call_id ?? '');
    const facts = { event: seq, code: clean(data.code), ...(call && { tool: clean(call.tool) }) };
    this.#set('refused', `${seq}`, this.#entry(call, facts));
  }

  #approval({ seq, data }: RecordedOf<'approval'>): void {
    const { state, approval = '', kind } = data;
    const call_id = 'call_id' in data ? data.call_id : undefined;
    if (state === 'pending') {
      const key = kind === 'question' ? (call_id ?? approval) : approval;
      this.#set('open_requests', key, { line: { event: seq, approval, kind } });
      return;
    }
    this.#drop('open_requests', approval);
    const call = this.#calls.get(call_id ?? '');
    const facts: JsonObject = {
      event: seq,
      state,
      ...('capability' in data && { capability: clean(data.capability) }),
      ...('uses_left' in data && { uses_left: data.uses_left }),
      ...(call && { tool: clean(call.tool) }),
    };
    this.#set('approvals', `${approval}:${call_id ?? ''}`, this.#entry(call, facts));
  }

  /** Returns the lines of a section, the newest first. */
  entries(section: Section): readonly FactEntry[] {
    const entries = [...(this.#sections.get(section)?.values() ?? [])].toReversed();
    if (section !== 'people_said') return entries;
    let rest = MAX_SAID;
    return entries.filter(({ line }) => {
      rest -= textAt(line, 'text').length;
      return rest >= 0;
    });
  }
}

/** Returns the role of the parameter that names the target of a tool, for `Facts`. */
export const targetKind =
  ({ library }: Pick<HarnessPorts, 'library'>) =>
  (id: string): string | undefined => {
    const found = library.find('tool', id);
    const roles = (found.ok ? (found.output.tool?.parameters ?? []) : []).map(({ role }) => role);
    return roles.find((role) => role === 'path' || role === 'destination');
  };

const limitsIn = ({ budget }: Pick<Thread, 'budget'>): JsonObject => {
  const used = usedAmounts(budget.meter.read());
  const rows = LIMIT_NAMES.flatMap((name) => {
    const max = budget.limits[name]?.value;
    if (max === undefined || name === 'context' || name === 'depth') return [];
    const now = used[name] ?? 0n;
    const [current, most] = [limitNumber(name, now), limitNumber(name, max)];
    return [[name, { used: current, max: most, left: Math.max(0, most - current) }] as const];
  });
  return Object.fromEntries(rows);
};

const MAX_REFERENCES = 200;

function referencesIn({ talk: { references } }: Pick<Thread, 'talk'>): Json[] {
  const values = references?.values() ?? [];
  const rows = values.map(
    (value, at): Json => ({ reference: `$r${at + 1}`, ...shapeOf(value.data) }),
  );
  return rows.slice(-MAX_REFERENCES).toReversed();
}

/**
 * Returns the facts for the message of the harness, with at most `room` characters. The facts with the lowest
 * priority are left out first, and counted.
 */
export function shownFacts(
  thread: Pick<Thread, 'talk' | 'budget'>,
  facts: Facts,
  room: number,
  kept?: string,
): JsonObject {
  const lists = new Map<string, Json[]>();
  const foreign = new Map<string, Json[]>();
  let [size, left] = [0, 0];
  const put = (into: Map<string, Json[]>, section: string, line: Json): void => {
    size += JSON.stringify(line).length + 1;
    if (size > room) left += 1;
    else into.set(section, [...(into.get(section) ?? []), line]);
  };
  if (kept !== undefined) put(lists, 'kept_by_hook', kept);
  for (const section of SECTION_NAMES) {
    if (section === 'limits') put(lists, section, limitsIn(thread));
    for (const { line, stranger } of facts.entries(section)) {
      if (line !== null) put(lists, section, line);
      if (stranger !== undefined) put(foreign, section, stranger);
    }
  }
  for (const line of referencesIn(thread)) put(lists, 'references', line);
  const answer: JsonObject = {};
  for (const [section, list] of lists)
    answer[section] = section === 'limits' || section === 'kept_by_hook' ? (list[0] ?? null) : list;
  if (foreign.size > 0) answer.names_from_strangers = Object.fromEntries(foreign);
  if (left > 0) answer.left_out = left;
  return answer;
}
