// How a value came to be, or why something was refused. In a thread it is told from the journal: everything
// a model writes is made of all it has read, so what led to a call are the messages and results before the
// reply that asked for it, then that reply, then the argument.
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

/** A step on the way; `seq`: the event of the thread that it stands for. */
export interface ExplainedNode extends ProvenanceNode {
  readonly seq?: number;
}

export interface Explained extends Provenance {
  /** What is explained, in one line. */
  readonly subject: string;
  /** Absent where nothing was refused. */
  readonly refusal: Json;
  readonly nodes: readonly ExplainedNode[];
  readonly seq?: number;
}

/**
 * What of a thread: an event and an argument of its call, or a value (as `explainValue` reads it). The last refusal when
 * nothing is said.
 */
export interface AskedAbout {
  readonly seq?: number;
  readonly argument?: string;
  readonly value?: string;
}

/** More than this nobody looks at; the latest count most. */
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

/** Labels that say more than where something came from: that its sources say. */
export const tellingLabels = (...lists: readonly (readonly string[])[]): string[] =>
  [...new Set(lists.flat())].filter((label) => !/^(src|dir):/.test(label));

export type CallIndex = ReturnType<typeof readCalls>;
/** The events of one call. A call of an older journal may lack some. */
type CallStory = Partial<CallEvents>;

export const callIdOf = ({ data }: Recorded): string | undefined =>
  'call_id' in data ? plainText(data.call_id) || undefined : undefined;

/** The tool of a result stands with its call when the result does not name it. */
function toolOf({ intent, result }: CallStory): string {
  const named = result?.data.tool ?? getOwn(intent?.data.arguments, 'item_id') ?? intent?.data.verb;
  // What the harness hands over at the start is the directive itself.
  return named === undefined ? 'directive' : `tool ${plainText(named)}`;
}

export const nameOf = (event: ModelInput, journal: CallIndex): string =>
  event.type === 'tool_result'
    ? toolOf({ ...journal.get(event.data.call_id), result: event })
    : event.type.replace('_', ' ');

export const placeOf = ({ turn }: Recorded) => ({ file: 'turn', line: turn });

/** Why an argument may steer, in words. */
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

/** What a refusal is about: all that it carries, and the marks for which it was refused. */
interface Blamed {
  readonly carried?: readonly string[] | undefined;
  readonly taint?: readonly string[];
}

/** What was read before a reply; of a refusal only what its marks tell of, of a taint only who brought it. */
function readBefore(
  events: readonly Recorded[],
  until: number,
  { carried, taint = [] }: Blamed,
  journal: CallIndex,
): ExplainedNode[] {
  const known = carried && new Set(carried);
  const read = events
    .filter(isRead)
    .filter(({ seq }) => seq < until)
    .filter(({ data }) => !known || data.marks.taint.every((mark) => known.has(mark)));
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

/** The reply that asked for what happened at `seq`; a call of a script has none. */
const replyBefore = (events: readonly Recorded[], seq: number, turn: number): Said | undefined =>
  events.findLast(
    (event): event is Said =>
      event.type === 'assistant_message' &&
      event.seq < seq &&
      event.turn === turn &&
      event.data.injected !== true,
  );

const aboutOf = ({ intent, denial }: CallStory): JsonObject => ({
  ...intent?.data.about,
  ...denial?.data.about,
});

/** Arguments that something is known about, or the one that is asked for. */
function argumentNodes(
  story: CallStory,
  { argument }: AskedAbout,
  from: readonly number[],
  first: number,
): ExplainedNode[] {
  const about = aboutOf(story);
  const at = story.intent ?? story.denial;
  if (!at) return [];
  const names = argument === undefined ? Object.keys(about) : [argument];
  return names.map((name, index) => {
    const known = getOwn(about, name);
    const labels = textsIn(getOwn(known, 'labels'));
    const origin = plainText(getOwn(known, 'origin'));
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

/** What was read, the reply made of it, and what that reply asked for. */
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
  const said: ExplainedNode = {
    id,
    operation: 'reply of the model',
    place: placeOf(reply),
    labels: tellingLabels(...nodes.map(({ labels }) => labels)),
    sources: [],
    from: all,
    seq: reply.seq,
  };
  return { nodes: [...nodes, said], from: [id] };
}

const NO_DETAIL: JsonObject = {};

/** The fault of a refused call, wherever it stands. */
function faultOf({ denial, result }: CallStory): { code: Json; detail: JsonObject } | undefined {
  const error = result && isRefusal(result) ? errorOf(result) : undefined;
  if (error)
    return { code: error.code ?? null, detail: isObject(error.detail) ? error.detail : error };
  if (!denial) return undefined;
  return { code: denial.data.code, detail: { ...NO_DETAIL, ...denial.data.detail } };
}

const textsIn = (list: Json | undefined): string[] =>
  Array.isArray(list) ? list.map(plainText) : [];

/** What would be needed: the ways out that a rule names, the right that is missing, or a person. */
function neededFor({ ways, missing, remedy, guard, filter }: JsonObject): string[] {
  const named = textsIn(ways);
  if (named.length > 0) return named;
  if (typeof remedy === 'string') return [remedy];
  const right = plainText(missing);
  if (right !== '') return [`a right that is not held: \`${right}\``];
  const [by, rule] = [plainText(guard), plainText(filter)];
  if (by === `policy:${rule}`) {
    return [`\`rules: { ${rule}: ask }\` in a policy, and a person who approves this one call`];
  }
  if (by.startsWith('policy:'))
    return [`another rule for \`${rule}\` in the ${by.slice(7)} policy`];
  return by === '' ? [] : [`another answer of guard ${by}`];
}

/** Numbers of operations and names of functions stand in the tree. */
const isOutside = (source: string): boolean => !/^(operation|function):/.test(source);

/** Who refused, which sources tainted what it refused, and what would be needed. */
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

/** The marks of the argument that a rule objected to; nothing where no rule over marks refused. */
function blamedFor(story: CallStory, { guard, input }: JsonObject = {}): string[] {
  if (typeof guard !== 'string') return [];
  const about = aboutOf(story);
  const named = getOwn(about, plainText(input));
  const told = named === undefined ? Object.values(about) : [named];
  return tellingLabels(...told.map((one) => textsIn(getOwn(one, 'labels'))));
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

/** A call: what led to it, and its refusal or its result. */
export function explainCall(
  events: readonly Recorded[],
  journal: CallIndex,
  story: CallStory = {},
  { argument, seq }: AskedAbout,
): Outcome<Explained> {
  const at = story.intent ?? story.denial ?? story.result;
  if (!at) return fail('not_found', 'there is no such call');
  const known = Object.keys(
    isObject(story.intent?.data.arguments) ? story.intent.data.arguments : {},
  );
  const inner = getOwn(story.intent?.data.arguments, 'parameters');
  const names = new Set([...known, ...Object.keys(isObject(inner) ? inner : {})]);
  if (argument !== undefined && !names.has(argument) && !Object.hasOwn(aboutOf(story), argument)) {
    return fail('not_found', `the call has no argument \`${argument}\``, { arguments: [...names] });
  }
  const fault = faultOf(story);
  const carried = fault && story.result ? story.result.data.marks.taint : undefined;
  const taint = blamedFor(story, fault?.detail);
  const way = wayTo(events, at, { carried, taint }, journal);
  const made = argumentNodes(
    story,
    argument === undefined ? {} : { argument },
    way.from,
    way.nodes.length,
  );
  const nodes = [...way.nodes, ...made];
  const from = made.length > 0 ? made.map(({ id }) => id) : way.from;
  const marks = story.result?.data.marks ?? { labels: [], taint: [], sources: [] };
  const tool = toolOf(story);
  const seen = new Set([...nodes.flatMap(({ sources }) => sources), tool.replace(' ', ':')]);
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
        : tellingLabels(...made.map(({ labels }) => labels)),
    sources: argument === undefined ? marks.sources.filter((source) => !seen.has(source)) : [],
    from,
    nodes,
    seq: seq ?? at.seq,
  });
}

/** Anything else: a reply, a message, a denial without a call. */
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
