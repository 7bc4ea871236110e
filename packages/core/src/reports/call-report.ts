// Explains the origin of a value, or a refusal, from the journal of a thread. A model can use everything that it
// has read, so the sources of a call are the messages and results before the reply that requested it, then that
// reply, then the argument.
import {
  fail,
  getOwn,
  isObject,
  type Json,
  type JsonObject,
  type Outcome,
  ok,
  plainText,
} from '../base/index.ts';
import type { Provenance, ProvenanceNode } from '../flow/index.ts';
import {
  type CallEvents,
  eventFlags,
  type Marks,
  type Recorded,
  type RecordedOf,
  type readCalls,
} from '../journal/index.ts';

/** A step between the sources and the explained value. `seq`: event of the step. Absent: it has no event. */
export interface ExplainedNode extends ProvenanceNode {
  readonly seq?: number;
}

export interface Explained extends Provenance {
  /** Name of the explained call, value or event, in one line. */
  readonly subject: string;
  /** Refusal of the call. Null: the call was not refused. */
  readonly refusal: Json;
  readonly nodes: readonly ExplainedNode[];
  readonly seq?: number;
}

/**
 * Subject of an explanation: an event and an argument of its call, or a value (as `explainValue` reads it). Without
 * a field it is the last refusal.
 */
export interface CallApproval {
  readonly seq?: number;
  readonly argument?: string;
  readonly value?: string;
}

/** Maximum number of sources. The latest ones are the most useful. */
const MAX_READ = 1000;
export const REFUSED: ReadonlySet<string> = new Set(['permission_denied', 'needs_input']);

export type Call = RecordedOf<'tool_call'>;
export type CallResult = RecordedOf<'tool_result'>;
type Said = RecordedOf<'assistant_message'>;
type ModelInput = Extract<Recorded, { readonly data: { readonly marks: Marks } }>;

const isRead = (event: Recorded): event is ModelInput =>
  eventFlags(event.type).isInput === true && !(event.type === 'tool_result' && event.data.is_error);

const errorOf = ({ data }: CallResult): JsonObject => {
  const error = data.is_error ? getOwn(data.content, 'error') : undefined;
  return isObject(error) ? error : {};
};

export const isRefusal = (event: Recorded): event is CallResult =>
  event.type === 'tool_result' && REFUSED.has(plainText(errorOf(event).code));

/** Returns the labels without those that only name a source, because `sources` has these. */
export const tellingLabels = (...lists: readonly (readonly string[])[]): string[] =>
  [...new Set(lists.flat())].filter((label) => !/^(src|dir):/.test(label));

export type CallIndex = ReturnType<typeof readCalls>;
/** The events of one call. A call of an older journal may lack some. */
type CallParts = Partial<CallEvents>;

export const callIdOf = ({ data }: Recorded): string | undefined =>
  'call_id' in data ? plainText(data.call_id) || undefined : undefined;

/** Returns the tool of a call. A result without the name of its tool has it in its intent. */
function toolOf({ intent, result }: CallParts): string {
  const named = result?.data.tool ?? getOwn(intent?.data.arguments, 'item_id') ?? intent?.data.verb;
  // The result that opens the conversation contains the directive itself.
  return named === undefined ? 'directive' : `tool ${plainText(named)}`;
}

export const nameOf = (event: ModelInput, journal: CallIndex): string =>
  event.type === 'tool_result'
    ? toolOf({ ...journal.get(event.data.call_id), result: event })
    : event.type.replace('_', ' ');

export const placeOf = ({ turn }: Recorded) => ({ file: 'turn', line: turn });

/** Texts of the origins that allow an argument to decide about effects. */
const ORIGINS: Readonly<Record<string, string>> = {
  said: 'said by the user or the directive',
  result: 'field of a trusted result',
  identifier: 'the name of something that a tool lists',
  directory: 'from the user’s own address book',
  reference: 'passed on unread',
  approval: 'approved',
  fixed: 'fixed by the tool',
  granted: 'named in a grant',
  own: 'made by this thread',
  closed: 'closed to others',
};

/** Marks of a refused call: all of them, and those for which a rule refused it. */
interface Blamed {
  readonly carried?: readonly string[] | undefined;
  readonly taint?: readonly string[];
}

/** Returns the inputs before an event: of a refusal those with its marks, of a taint those that have it. */
function readBefore(
  events: readonly Recorded[],
  until: number,
  { carried, taint = [] }: Blamed,
  journal: CallIndex,
): ExplainedNode[] {
  const marksOfCall = carried && new Set(carried);
  const read = events
    .filter(isRead)
    .filter(({ seq }) => seq < until)
    .filter(({ data }) => !marksOfCall || data.marks.taint.every((mark) => marksOfCall.has(mark)));
  const guilty = read.filter(({ data }) => taint.some((mark) => data.marks.taint.includes(mark)));
  return (guilty.length > 0 ? guilty : read).slice(-MAX_READ).map((event, id) => ({
    id,
    operation: nameOf(event, journal),
    place: placeOf(event),
    labels: tellingLabels(event.data.marks.labels, event.data.marks.taint),
    sources: event.data.marks.sources,
    from: [],
    seq: event.seq,
  }));
}

/** Returns the last reply of the turn before event `seq`. Undefined: a script made the call. */
const replyBefore = (events: readonly Recorded[], seq: number, turn: number): Said | undefined =>
  events.findLast(
    (event): event is Said =>
      event.type === 'assistant_message' &&
      event.seq < seq &&
      event.turn === turn &&
      event.data.injected !== true,
  );

const aboutOf = ({ intent, denial }: CallParts): JsonObject => ({
  ...intent?.data.about,
  ...denial?.data.about,
});

/** Returns a node for each argument with facts, or for the requested argument. */
function argumentNodes(
  story: CallParts,
  { argument }: CallApproval,
  from: readonly number[],
  first: number,
): ExplainedNode[] {
  const about = aboutOf(story);
  const at = story.intent ?? story.denial;
  if (!at) return [];
  const names = argument === undefined ? Object.keys(about) : [argument];
  return names.map((name, index) => {
    const facts = getOwn(about, name);
    const labels = textsIn(getOwn(facts, 'labels'));
    const origin = plainText(getOwn(facts, 'origin'));
    const why = Object.hasOwn(ORIGINS, origin) ? `, ${ORIGINS[origin]}` : '';
    return {
      id: first + index,
      operation: `argument ${name}${why}`,
      place: placeOf(at),
      labels: tellingLabels(labels),
      sources: [],
      from,
      seq: at.seq,
    };
  });
}

/** Returns the inputs before an event and the reply that requested it. `from`: nodes that lead to the event. */
function wayTo(
  events: readonly Recorded[],
  at: { readonly seq: number; readonly turn: number },
  blamed: Blamed,
  journal: CallIndex,
): { nodes: ExplainedNode[]; from: number[] } {
  const reply = replyBefore(events, at.seq, at.turn);
  const nodes = readBefore(events, reply?.seq ?? at.seq, blamed, journal);
  const all = nodes.map(({ id }) => id);
  if (!reply) return { nodes, from: all };
  const id = nodes.length;
  const replyNode: ExplainedNode = {
    id,
    operation: 'reply of the model',
    place: placeOf(reply),
    labels: tellingLabels(...nodes.map(({ labels }) => labels)),
    sources: [],
    from: all,
    seq: reply.seq,
  };
  return { nodes: [...nodes, replyNode], from: [id] };
}

const NO_DETAIL: JsonObject = {};

/** Returns the fault of a refused call, from its result or from its denial. */
function faultOf({ denial, result }: CallParts): { code: Json; detail: JsonObject } | undefined {
  const error = result && isRefusal(result) ? errorOf(result) : undefined;
  if (error)
    return { code: error.code ?? null, detail: isObject(error.detail) ? error.detail : error };
  if (!denial) return undefined;
  return { code: denial.data.code, detail: { ...NO_DETAIL, ...denial.data.detail } };
}

const textsIn = (list: Json | undefined): string[] =>
  Array.isArray(list) ? list.map(plainText) : [];

/** Returns the remedies: those of the rule, the missing right, or a person who approves. */
function neededFor({ ways, missing, remedy, guard, filter }: JsonObject): string[] {
  const named = textsIn(ways);
  if (named.length > 0) return named;
  if (typeof remedy === 'string') return [remedy];
  const right = plainText(missing);
  if (right !== '') return [`the missing right \`${right}\``];
  const [by, rule] = [plainText(guard), plainText(filter)];
  if (by === `policy:${rule}`) {
    return [`\`rules: { ${rule}: ask }\` in a policy, and a person who approves this one call`];
  }
  if (by.startsWith('policy:'))
    return [`another rule for \`${rule}\` in the ${by.slice(7)} policy`];
  return by === '' ? [] : [`another answer of guard ${by}`];
}

/** Returns false for operations and functions, which are nodes of the tree already. */
const isOutside = (source: string): boolean => !/^(operation|function):/.test(source);

/** Returns a refusal with its rule, the sources that tainted the call, and the remedies. */
export const refusalOf = (
  code: Json,
  detail: JsonObject,
  clean: ReadonlySet<string> = new Set(),
): Json => {
  const { guard = null, filter = null, reasons = [], input = null, sources } = detail;
  return {
    code,
    guard,
    filter,
    reasons,
    input,
    tainted_by: textsIn(sources).filter((one) => isOutside(one) && !clean.has(one)),
    needed: neededFor(detail),
  };
};

/** Returns the marks of the argument for which a rule refused the call. Empty: no such rule refused it. */
function blamedFor(story: CallParts, { guard, input }: JsonObject = {}): string[] {
  if (typeof guard !== 'string') return [];
  const about = aboutOf(story);
  const named = getOwn(about, plainText(input));
  const facts = named === undefined ? Object.values(about) : [named];
  return tellingLabels(...facts.map((one) => textsIn(getOwn(one, 'labels'))));
}

function cleanSources(
  events: readonly Recorded[],
  until: number,
  taint: readonly string[],
): ReadonlySet<string> {
  if (taint.length === 0) return new Set();
  const isTainted = ({ data }: ModelInput): boolean =>
    taint.some((mark) => data.marks.taint.includes(mark));
  const read = events.filter(isRead).filter(({ seq }) => seq < until);
  return new Set(read.flatMap((one) => (isTainted(one) ? [] : one.data.marks.sources)));
}

/** Explains a call with its sources, and its refusal or its result. */
export function explainCall(
  events: readonly Recorded[],
  journal: CallIndex,
  story: CallParts = {},
  { argument, seq }: CallApproval,
): Outcome<Explained> {
  const at = story.intent ?? story.denial ?? story.result;
  if (!at) return fail('not_found', 'call not found');
  const fields = Object.keys(
    isObject(story.intent?.data.arguments) ? story.intent.data.arguments : {},
  );
  const inner = getOwn(story.intent?.data.arguments, 'parameters');
  const names = new Set([...fields, ...Object.keys(isObject(inner) ? inner : {})]);
  if (argument !== undefined && !names.has(argument) && !Object.hasOwn(aboutOf(story), argument)) {
    return fail('not_found', `the call has no argument \`${argument}\``, { arguments: [...names] });
  }
  const fault = faultOf(story);
  const carried = fault && story.result ? story.result.data.marks.taint : undefined;
  const taint = blamedFor(story, fault?.detail);
  const way = wayTo(events, at, { carried, taint }, journal);
  const args = argumentNodes(
    story,
    argument === undefined ? {} : { argument },
    way.from,
    way.nodes.length,
  );
  const nodes = [...way.nodes, ...args];
  const from = args.length > 0 ? args.map(({ id }) => id) : way.from;
  const marks = story.result?.data.marks ?? { labels: [], taint: [], sources: [] };
  const tool = toolOf(story);
  const listed = new Set([...nodes.flatMap(({ sources }) => sources), tool.replace(' ', ':')]);
  const message = plainText(fault?.detail.message);
  const what = argument === undefined ? tool : `${tool} ${argument}`;
  return ok({
    subject: fault ? `${what}: ${message}` : what,
    refusal: fault
      ? refusalOf(fault.code, fault.detail, cleanSources(events, at.seq, taint))
      : null,
    labels:
      argument === undefined
        ? tellingLabels(marks.labels, marks.taint)
        : tellingLabels(...args.map(({ labels }) => labels)),
    sources: argument === undefined ? marks.sources.filter((source) => !listed.has(source)) : [],
    from,
    nodes,
    seq: seq ?? at.seq,
  });
}

/** Explains an event that is not a call: a reply, a message, or a denial without a call. */
export function explainEvent(
  events: readonly Recorded[],
  event: Recorded,
  journal: CallIndex,
): Explained {
  const marks = isRead(event) ? event.data.marks : { labels: [], taint: [], sources: [] };
  const nodes = isRead(event) ? [] : readBefore(events, event.seq, {}, journal);
  const fault = event.type === 'permission_denied' ? event.data : undefined;
  const labels = tellingLabels(marks.labels, marks.taint, ...nodes.map((node) => node.labels));
  return {
    subject: fault
      ? fault.detail.message
      : `${event.type.replaceAll('_', ' ')} in turn ${event.turn}`,
    refusal: fault ? refusalOf(fault.code, { ...NO_DETAIL, ...fault.detail }) : null,
    labels,
    sources: marks.sources,
    from: nodes.map(({ id }) => id),
    nodes,
    seq: event.seq,
  };
}
