// How a value came to be, or why something was refused. In a thread it is told from the journal: everything
// a model writes is made of all it has read, so what led to a call are the messages and results before the
// reply that asked for it, then that reply, then the argument.
import {
  type Fault,
  fail,
  getOwn,
  isObject,
  type Json,
  type JsonObject,
  type Outcome,
  ok,
  plainText,
} from '../../base/index.ts';
import type { Provenance, ProvenanceNode } from '../../flow/index.ts';
import { type Recorded, type RecordedOf, readJournal } from '../../harness/index.ts';
import type { Store } from '../../store/index.ts';

/** A step on the way; `seq`: the event of the thread that it stands for. */
interface ExplainedNode extends ProvenanceNode {
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

/** What of a thread: an event and an argument of its call. The last refusal when nothing is said. */
interface AskedAbout {
  readonly seq?: number;
  readonly argument?: string;
}

/** More than this nobody looks at; the latest count most. */
const MAX_READ = 1000;
const REFUSED: ReadonlySet<string> = new Set(['permission_denied', 'needs_input']);
export const isRefused = ({ code }: Fault): boolean => REFUSED.has(code);

type Call = RecordedOf<'tool_call'>;
type Result = RecordedOf<'tool_result'>;
type Denial = RecordedOf<'permission_denied'>;
type Said = RecordedOf<'assistant_message'>;
/** What a model has read. */
type Read = Result | RecordedOf<'user_message'> | RecordedOf<'injected_message'>;

const isRead = (event: Recorded): event is Read =>
  event.type === 'user_message' ||
  event.type === 'injected_message' ||
  (event.type === 'tool_result' && !event.data.is_error);

const errorOf = ({ data }: Result): JsonObject => {
  const error = data.is_error ? getOwn(data.content, 'error') : undefined;
  return isObject(error) ? error : {};
};

const isRefusal = (event: Recorded): event is Result =>
  event.type === 'tool_result' && REFUSED.has(plainText(errorOf(event).code));

/** Labels that say more than where something came from: that its sources say. */
const tellingLabels = (...lists: readonly (readonly string[])[]): string[] =>
  [...new Set(lists.flat())].filter((label) => !/^(src|dir):/.test(label));

/** Everything that belongs to one call. */
interface CallStory {
  readonly call?: Call;
  readonly denial?: Denial;
  readonly result?: Result;
}

/** A journal by its calls, so that no question reads it twice. */
function indexOf(events: readonly Recorded[]) {
  const calls = new Map<string, Call>();
  const results = new Map<string, Result>();
  const denials = new Map<string, Denial>();
  const unnamed: Denial[] = [];
  for (const event of events) {
    if (event.type === 'tool_call') calls.set(event.data.call_id, event);
    if (event.type === 'tool_result') {
      results.set(event.data.call_id, event);
      // What was noted before denials named their call: the next refused result is the one.
      const before = isRefusal(event) ? unnamed.shift() : undefined;
      if (before) denials.set(event.data.call_id, before);
    }
    if (event.type !== 'permission_denied') continue;
    const { call_id } = event.data;
    if (call_id === undefined) unnamed.push(event);
    else denials.set(call_id, event);
  }
  const storyOf = (id: string): CallStory => {
    const [call, denial, result] = [calls.get(id), denials.get(id), results.get(id)];
    return { ...(call && { call }), ...(denial && { denial }), ...(result && { result }) };
  };
  const callOf = (event: Recorded): string | undefined => {
    const named = 'call_id' in event.data ? plainText(event.data.call_id) : '';
    if (named !== '') return named;
    return [...denials].find(([, denial]) => denial === event)?.[0];
  };
  return { storyOf, callOf };
}

type Journal = ReturnType<typeof indexOf>;

/** The tool of a result stands with its call when the result does not name it. */
function toolOf({ call, result }: CallStory): string {
  const named = result?.data.tool ?? getOwn(call?.data.arguments, 'item_id') ?? call?.data.verb;
  // What the harness hands over at the start is the directive itself.
  return named === undefined ? 'directive' : `tool ${plainText(named)}`;
}

const nameOf = (event: Read, { storyOf }: Journal): string =>
  event.type === 'tool_result'
    ? toolOf({ ...storyOf(event.data.call_id), result: event })
    : event.type.replace('_', ' ');

const placeOf = ({ turn }: Recorded) => ({ file: 'turn', line: turn });

/** Why an argument may steer, in words. */
const ORIGINS: Readonly<Record<string, string>> = {
  said: 'said by the user or the directive',
  result: 'field of a trusted result',
  approval: 'approved',
  fixed: 'fixed by the tool',
  granted: 'named in a grant',
  own: 'made by this thread',
  closed: 'closed to others',
};

/** What was read before a reply; of a refusal only what its marks tell of. */
function readBefore(
  events: readonly Recorded[],
  until: number,
  carried: readonly string[] | undefined,
  journal: Journal,
): ExplainedNode[] {
  const known = carried && new Set(carried);
  return events
    .filter(isRead)
    .filter(({ seq }) => seq < until)
    .filter(({ data }) => !known || data.marks.taint.every((mark) => known.has(mark)))
    .slice(-MAX_READ)
    .map((event, id) => ({
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

const aboutOf = ({ call, denial }: CallStory): JsonObject => ({
  ...call?.data.about,
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
  const at = story.call ?? story.denial;
  if (!at) return [];
  const names = argument === undefined ? Object.keys(about) : [argument];
  return names.map((name, index) => {
    const known = getOwn(about, name);
    const labels = getOwn(known, 'labels');
    const origin = plainText(getOwn(known, 'origin'));
    const why = Object.hasOwn(ORIGINS, origin) ? `, ${ORIGINS[origin]}` : '';
    return {
      id: first + index,
      operation: `argument ${name}${why}`,
      place: placeOf(at),
      labels: tellingLabels(Array.isArray(labels) ? labels.map(plainText) : []),
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
  carried: readonly string[] | undefined,
  journal: Journal,
): { nodes: ExplainedNode[]; from: number[] } {
  const reply = replyBefore(events, at.seq, at.turn);
  const nodes = readBefore(events, reply?.seq ?? at.seq, carried, journal);
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

const refusalOf = (
  code: Json,
  { guard = null, filter = null, reasons = [] }: JsonObject,
): Json => ({
  code,
  guard,
  filter,
  reasons,
});

/** A call: what led to it, and its refusal or its result. */
function explainCall(
  events: readonly Recorded[],
  journal: Journal,
  story: CallStory,
  { argument, seq }: AskedAbout,
): Outcome<Explained> {
  const at = story.call ?? story.denial ?? story.result;
  if (!at) return fail('not_found', 'there is no such call');
  const known = Object.keys(isObject(story.call?.data.arguments) ? story.call.data.arguments : {});
  const inner = getOwn(story.call?.data.arguments, 'parameters');
  const names = new Set([...known, ...Object.keys(isObject(inner) ? inner : {})]);
  if (argument !== undefined && !names.has(argument) && !Object.hasOwn(aboutOf(story), argument)) {
    return fail('not_found', `the call has no argument \`${argument}\``, { arguments: [...names] });
  }
  const fault = faultOf(story);
  const carried = fault && story.result ? story.result.data.marks.taint : undefined;
  const way = wayTo(events, at, carried, journal);
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
    refusal: fault ? refusalOf(fault.code, fault.detail) : null,
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
function explainEvent(events: readonly Recorded[], event: Recorded, journal: Journal): Explained {
  const marks = isRead(event) ? event.data.marks : { labels: [], taint: [], sources: [] };
  const nodes = isRead(event) ? [] : readBefore(events, event.seq, undefined, journal);
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

/** Why something was refused in a thread, or how the call, the result or the reply at `seq` came to be. */
export async function explainRefusal(
  store: Pick<Store, 'read'>,
  thread: string,
  asked: AskedAbout = {},
): Promise<Outcome<Explained>> {
  const read = await readJournal(store, thread);
  if (!read.ok) return read;
  const events = read.output;
  const journal = indexOf(events);
  if (asked.seq === undefined) {
    const refused = events.findLast(isRefusal);
    if (!refused) return fail('not_found', `nothing was refused in thread \`${thread}\``);
    const story = journal.storyOf(refused.data.call_id);
    return explainCall(events, journal, { ...story, result: refused }, asked);
  }
  const event = events.find(({ seq }) => seq === asked.seq);
  if (!event) return fail('not_found', `thread \`${thread}\` has no event ${asked.seq}`);
  const call = journal.callOf(event);
  if (call !== undefined) return explainCall(events, journal, journal.storyOf(call), asked);
  if (asked.argument !== undefined) {
    return fail('invalid_input', `event ${asked.seq} is no call, so it has no arguments`);
  }
  return ok(explainEvent(events, event, journal));
}

/** The refusal that a script ended with, and the trail of it. */
export function ofScriptFault(fault: Fault, provenance: Provenance): Explained {
  const { message } = fault.detail;
  return { subject: message, refusal: refusalOf(fault.code, fault.detail), ...provenance };
}
