// Builds the review that a person reads before a decision: the exact effect, its provenance, the
// requesting thread and its rights. The text of the model is separate from the facts.
import {
  fail,
  getOwn,
  isObject,
  type Json,
  type JsonObject,
  masked,
  type Outcome,
  ok,
  plainText,
} from '@kernmantle/core/base';
import type { Library } from '@kernmantle/core/items';
import { type Call, meterName } from '@kernmantle/core/journal';
import { reports } from '@kernmantle/core/reports';
import { choicesFor, type Runtime } from '@kernmantle/core/runtime';
import type { Approval, Store, ThreadRow } from '@kernmantle/core/store';
import { normalizeCapability, RISK_TIERS, type RiskTier } from '@kernmantle/core/trust';
import type { ApprovalReview, ArgumentView, Gate } from '../../model/api.ts';
import type { WebParts } from '../context.ts';
import { grantIn, limitsIn, listedApproval, rightName } from '../listed-approvals.ts';
import { argumentView, type CallEvents, callEvents, gatesOf, givenTo } from './call-facts.ts';
import { type CallIndex, callIndexesOf } from './call-index.ts';
import { gatesWithReasons, requiredBy, usesOfRights } from './rights.ts';
import { textOf } from './text-piece.ts';
import { ceilingsOf } from './thread-view.ts';

const MAX_SAYS = 8000;
const MAX_APPROVALS = 1000;
/** Marks a text that the requester has cut. */
const CUT = / …$/;

/** Facts about the thread of the request. Absent if it has none. */
interface Facts {
  readonly row: ThreadRow;
  readonly book: CallIndex;
  readonly entry?: Call;
  readonly events: CallEvents;
}

/** Returns the call of the request. A thread also requests rights and asks questions in a call. */
function entryOf({ calls }: CallIndex, { id, binding }: Approval): Call | undefined {
  const callId = plainText(binding.call ?? '');
  return calls.list().findLast((call) => call.approval?.id === id) ?? calls.find(callId);
}

async function loadFacts(
  runtime: Runtime,
  store: Store,
  approval: Approval,
): Promise<Outcome<Facts | undefined>> {
  const { thread } = approval;
  if (thread === undefined) return ok(undefined);
  const row = await store.thread(thread);
  if (!row.ok) return row.error.code === 'not_found' ? ok(undefined) : row;
  const book = await callIndexesOf(runtime).of(store, thread);
  if (!book.ok) return book;
  const entry = entryOf(book.output, approval);
  const events = entry ? await callEvents(store, thread, entry) : ok({});
  if (!events.ok) return events;
  return ok({ row: row.output, book: book.output, ...(entry && { entry }), events: events.output });
}

/** Returns the full text of a cut value, unless the call has another value, because a guard changed it. */
function wholeValue(name: string, value: Json, facts: Facts | undefined): Json {
  if (typeof value !== 'string' || !CUT.test(value) || !facts?.entry) return value;
  const raw = getOwn(givenTo(facts.entry, facts.events), name);
  const text = raw === undefined ? '' : typeof raw === 'string' ? raw : JSON.stringify(raw);
  return text.startsWith(value.replace(CUT, '')) ? text : value;
}

const argumentsIn = ({ shown }: Approval): JsonObject =>
  isObject(shown.arguments) ? shown.arguments : {};

function argumentViews(approval: Approval, facts: Facts | undefined): ArgumentView[] {
  const { shown } = approval;
  const about = { ...facts?.events.call?.data.about, ...facts?.events.denial?.data.about };
  const args = facts?.entry && givenTo(facts.entry, facts.events);
  const writer = facts?.events.reply ? 'the model' : plainText(shown.caller ?? '') || 'the caller';
  return Object.entries(argumentsIn(approval)).map(([name, value]) => {
    const role = getOwn(shown.roles, name);
    return argumentView(name, wholeValue(name, value, facts), getOwn(about, name), {
      writer: args && !Object.hasOwn(args, name) ? 'the tool’s default' : writer,
      ...(typeof role === 'string' && { role }),
    });
  });
}

/** Returns the whole text of one argument. Fails with `not_found` if the call has no such argument. */
export async function reviewedArgument(
  { runtime }: Pick<WebParts, 'runtime'>,
  store: Store,
  approval: Approval,
  name: string,
): Promise<Outcome<string>> {
  const value = getOwn(argumentsIn(approval), name);
  if (value === undefined) return fail('not_found', 'argument not found in the call');
  const facts = await loadFacts(runtime, store, approval);
  return facts.ok ? ok(masked(textOf(wholeValue(name, value, facts.output)))) : facts;
}

/** Effect of the tool, and the risk tier of its rights. */
function toolFacts(library: Library, { shown }: Approval): Partial<ApprovalReview> {
  const { tool } = shown;
  if (typeof tool !== 'string') return {};
  const item = library.find('tool', tool);
  const entry = item.ok ? item.output.tool : undefined;
  if (!entry) return { tool };
  const { catalog } = library.capabilities();
  const action = plainText(getOwn(shown.arguments, 'action') ?? '');
  const effect = entry.actions.find(({ name }) => name === action)?.effect ?? entry.effect;
  const tiers = requiredBy(library, tool, action).map((capability): RiskTier => {
    if (capability === 'net.http' && effect === 'read') return 'read';
    return catalog.get(normalizeCapability(capability))?.tier ?? 'system';
  });
  const least: RiskTier = effect === 'write' ? 'write' : 'read';
  const tier = RISK_TIERS.findLast((one) => tiers.includes(one) || one === least) ?? least;
  return { tool, effect, tier };
}

const GATE_STATES: Readonly<Record<Approval['state'], Gate['state']>> = {
  pending: 'asks',
  approved: 'passed',
  used: 'passed',
  denied: 'refused',
  expired: 'refused',
};

function gatesFor(
  library: Library,
  approval: Approval,
  facts: Facts | undefined,
  rule: string,
): Gate[] {
  const { kind, state } = approval;
  if (kind === 'capability') {
    return [{ stage: 'right', state: GATE_STATES[state], by: rightName(grantIn(approval)) }];
  }
  if (kind !== 'call' || !facts?.entry) {
    return kind === 'call' ? [{ stage: 'policy', state: 'asks', by: rule }] : [];
  }
  const gates = gatesOf(facts.entry, facts.events);
  return gatesWithReasons(gates, library, facts.book, facts.entry).map((gate) =>
    gate.state === 'asks' && rule !== '' ? { ...gate, by: rule } : gate,
  );
}

async function limitPart(
  runtime: Runtime,
  store: Store,
  { shown }: Approval,
  facts: Facts | undefined,
): Promise<Outcome<Partial<ApprovalReview>>> {
  const [entry] = Object.entries(limitsIn(shown));
  if (!entry) return ok({});
  const [name, value] = entry;
  const now = Number(getOwn(getOwn(facts?.row.limits, name), 'value') ?? 0);
  const ceilings = facts && (await ceilingsOf(runtime, store, facts.row));
  if (ceilings && !ceilings.ok) return ceilings;
  const ceiling = ceilings?.output[meterName(name)];
  return ok({
    limit: {
      name: meterName(name),
      now,
      asked: Number(value),
      ...(ceiling && { ceiling: ceiling.max, from: ceiling.from }),
    },
  });
}

/** Text of the model reply that contains the call. */
function saysOf(events: CallEvents | undefined): { says?: string } {
  const blocks = events?.reply?.data.injected ? [] : (events?.reply?.data.content ?? []);
  const text = blocks
    .map((block) => (block.type === 'text' ? block.text : ''))
    .join('\n')
    .trim();
  return text === '' ? {} : { says: masked(text).slice(0, MAX_SAYS) };
}

function wordsOf({ kind, shown }: Approval): Partial<ApprovalReview> {
  const question = masked(plainText(shown.question ?? ''));
  if (shown.action === 'anneal') {
    const parts = [shown.why, shown.diff].map((part) => masked(plainText(part ?? '')));
    return { question: parts.filter((part) => part !== '').join('\n\n') };
  }
  // Older rows have the reason in the field of the question.
  const because = masked(plainText(shown.because ?? (kind === 'question' ? '' : shown.question)));
  const asks = kind === 'question' || shown.because !== undefined ? question : '';
  const diff = getOwn(shown.file, 'diff');
  return {
    ...(asks !== '' && { question: asks }),
    ...(typeof diff === 'string' && { diff: masked(diff) }),
    ...(because !== '' && { because }),
  };
}

const textsIn = (value: Json | undefined): string[] =>
  Array.isArray(value) ? value.map((one) => masked(plainText(one))) : [];

/** Tainted arguments and earlier calls, as recorded with the request. */
function recordedFacts({ kind, shown }: Approval): Partial<ApprovalReview> {
  if (kind !== 'call') return {};
  const tainted = Object.entries(isObject(shown.tainted) ? shown.tainted : {}).map(
    ([name, row]) => {
      const word = (field: string): string => masked(plainText(getOwn(row, field) ?? ''));
      return {
        name,
        labels: textsIn(getOwn(row, 'labels')),
        from: textsIn(getOwn(row, 'from')),
        ...(word('stands_in') !== '' && { place: word('stands_in') }),
        ...(word('excerpt') !== '' && { excerpt: word('excerpt') }),
      };
    },
  );
  const before = (Array.isArray(shown.before) ? shown.before : []).map((row) => {
    const same = getOwn(row, 'same');
    return {
      at: plainText(getOwn(row, 'at')),
      thread: plainText(getOwn(row, 'thread')),
      ...(typeof same === 'boolean' && { same }),
      came_to: plainText(getOwn(row, 'outcome')),
    };
  });
  return {
    ...(tainted.length > 0 && { tainted }),
    ...(shown.before !== undefined && { before }),
  };
}

async function provenanceOf(store: Store, { entry, row }: Facts): Promise<Partial<ApprovalReview>> {
  const seq = entry && (entry.intents.at(-1) ?? entry.deniedAt ?? entry.reply);
  if (seq === undefined) return {};
  const { explainRefusal } = await reports.provenance();
  const result = await explainRefusal(store, row.id, { seq });
  // If the provenance is not available, the review omits it.
  return result.ok ? { provenance: result.output } : {};
}

export async function reviewApproval(
  { runtime, hub }: Pick<WebParts, 'runtime' | 'hub'>,
  store: Store,
  approval: Approval,
): Promise<Outcome<ApprovalReview>> {
  const loaded = await loadFacts(runtime, store, approval);
  if (!loaded.ok) return loaded;
  const facts = loaded.output;
  const listed = listedApproval(approval, facts?.row);
  const rows = facts ? await hub.rows([facts.row]) : ok([]);
  if (!rows.ok) return rows;
  const own = facts
    ? await store.approvals({ thread: facts.row.id, limit: MAX_APPROVALS })
    : ok([]);
  if (!own.ok) return own;
  const limit =
    approval.kind === 'limit' ? await limitPart(runtime, store, approval, facts) : ok({});
  if (!limit.ok) return limit;
  const { kind, shown } = approval;
  const seq = facts?.entry?.intents.at(-1) ?? facts?.entry?.reply;
  return ok({
    approval: listed,
    ...toolFacts(runtime.library, approval),
    arguments: argumentViews(approval, facts),
    gates: gatesFor(runtime.library, approval, facts, listed.rule ?? ''),
    ...(facts && (await provenanceOf(store, facts))),
    ...(kind === 'capability' && {
      grant: {
        name: rightName(grantIn(approval)),
        line: plainText(shown.line ?? ''),
        beyond: shown.declared === 'no',
      },
    }),
    ...limit.output,
    ...recordedFacts(approval),
    ...wordsOf(approval),
    ...saysOf(facts?.events),
    rights: facts ? usesOfRights(runtime.library, facts.book, own.output) : [],
    meters: rows.output[0]?.meters ?? [],
    ...(facts?.entry && { turn: facts.entry.turn }),
    ...(seq !== undefined && { seq }),
    choices: choicesFor(approval),
    ...(isObject(shown.roles) && { named: Object.keys(shown.roles) }),
  });
}
