// Facts about one call: its arguments and their origin, its gates, and its outcome in a short trusted
// text. Text of a model or a tool stays untrusted.
import {
  getOwn,
  isObject,
  type Json,
  type JsonObject,
  masked,
  type Outcome,
  ok,
  plainText,
  textsAt,
} from '@kernmantle/core/base';
import type { Library } from '@kernmantle/core/items';
import { type Call, decode, type Recorded, type RecordedOf } from '@kernmantle/core/journal';
import type { Store } from '@kernmantle/core/store';
import { formatPermission, permissionFor, type Scope } from '@kernmantle/core/trust';
import type { ArgumentView, Gate } from '../../model/api.ts';
import { textOf } from './text-piece.ts';

/** Longer texts are loaded only when the user opens them. */
const MAX_SHOWN = 2000;
const MAX_ARGUMENTS = 200;

async function eventAt(
  store: Pick<Store, 'read'>,
  thread: string,
  seq: number | undefined,
): Promise<Outcome<Recorded | undefined>> {
  if (seq === undefined || seq < 1) return ok(undefined);
  const read = await store.read(thread, { after: seq - 1, limit: 1 });
  if (!read.ok) return read;
  const [stored] = read.output;
  const event = stored?.seq === seq ? decode(stored) : undefined;
  return ok(event?.ok ? event.output : undefined);
}

/** Events of a call. An event that does not exist is absent. */
export interface CallEvents {
  readonly call?: RecordedOf<'tool_call'>;
  readonly denial?: RecordedOf<'permission_denied'>;
  readonly result?: RecordedOf<'tool_result'>;
  readonly reply?: RecordedOf<'assistant_message'>;
}

export async function callEvents(
  store: Pick<Store, 'read'>,
  thread: string,
  call: Call,
): Promise<Outcome<CallEvents>> {
  const events: { -readonly [name in keyof CallEvents]: CallEvents[name] } = {};
  for (const seq of [call.intents.at(-1), call.deniedAt, call.result?.seq, call.reply]) {
    const event = await eventAt(store, thread, seq);
    if (!event.ok) return event;
    const one = event.output;
    if (one?.type === 'tool_call') events.call = one;
    else if (one?.type === 'permission_denied') events.denial = one;
    else if (one?.type === 'tool_result') events.result = one;
    else if (one?.type === 'assistant_message') events.reply = one;
  }
  return ok(events);
}

/** Arguments of the call: the parameters of a tool, or the text of the model if the call did not start. */
export function givenTo({ id }: Call, { call, reply }: CallEvents): JsonObject {
  const block = reply?.data.content.find((one) => one.type === 'tool_call' && one.id === id);
  const written = block?.type === 'tool_call' ? block.arguments : undefined;
  const args = call?.data.arguments ?? written ?? {};
  const inner = getOwn(args, 'parameters');
  if (isObject(inner)) return inner;
  return isObject(args) ? args : { value: args };
}

/** Reasons why an argument may steer. */
const ORIGINS: Readonly<Record<string, string>> = {
  said: 'said by the user or the directive',
  result: 'field of a trusted result',
  approval: 'approved by a person',
  fixed: 'fixed by the tool',
  granted: 'inside a granted scope',
  own: 'made by this thread',
  closed: 'a protected path',
};

function rolesOf(library: Library, tool: string): ReadonlyMap<string, string> {
  const chain = library.chain(tool);
  const tools = chain.ok
    ? chain.output.links.flatMap((link) => (link.tool ? [link.tool] : []))
    : [];
  const all = tools.flatMap(({ parameters, actions }) => [
    ...parameters,
    ...actions.flatMap((action) => action.parameters),
  ]);
  return new Map(all.flatMap(({ name, role }) => (role === undefined ? [] : [[name, role]])));
}

/** Returns one argument with its exact text, or with the start of a long text. */
export function argumentView(
  name: string,
  value: Json,
  about: Json | undefined,
  more: { readonly role?: string | undefined; readonly writer: string },
): ArgumentView {
  const whole = masked(textOf(value));
  const origin = plainText(getOwn(about, 'origin') ?? '');
  const text =
    whole.length > MAX_SHOWN ? whole.slice(0, MAX_SHOWN).replace(/[\ud800-\udbff]$/, '') : whole;
  return {
    name,
    text,
    bytes: Buffer.byteLength(whole),
    is_cut: text.length < whole.length,
    labels: textsAt(about, 'labels'),
    origin: Object.hasOwn(ORIGINS, origin) ? (ORIGINS[origin] ?? '') : `from ${more.writer}`,
    ...(more.role !== undefined && { role: more.role }),
  };
}

export function argumentsOf(library: Library, entry: Call, events: CallEvents): ArgumentView[] {
  const about = {
    ...events.result?.data.about,
    ...events.call?.data.about,
    ...events.denial?.data.about,
  };
  const roles = rolesOf(library, entry.tool);
  const writer = events.reply?.data.injected
    ? 'the harness'
    : events.reply
      ? 'the model'
      : 'the script';
  return Object.entries(givenTo(entry, events))
    .slice(0, MAX_ARGUMENTS)
    .map(([name, value]) =>
      argumentView(name, value, getOwn(about, name), { role: roles.get(name), writer }),
    );
}

/** Returns the fault of the call, if any. */
export function faultOf({
  denial,
  result,
}: CallEvents): { code: string; detail: JsonObject } | undefined {
  if (denial) return { code: denial.data.code, detail: { ...denial.data.detail } };
  const error = result?.data.is_error ? getOwn(result.data.content, 'error') : undefined;
  if (!isObject(error)) return undefined;
  const { code, detail } = error;
  return { code: plainText(code), detail: isObject(detail) ? detail : error };
}

const STAGES = ['right', 'limits', 'policy', 'run'] as const;
type Stage = (typeof STAGES)[number];
const AT: Readonly<Record<string, Stage>> = {
  capability: 'right',
  limits: 'limits',
  policy: 'policy',
  guard: 'policy',
  primitive: 'run',
};

/** Stage of the refusal. If the denial has none, the fields of the fault decide. */
function refusedAt(call: Call, detail: JsonObject): Stage | undefined {
  const stage = call.denial?.stage;
  const isMissing = typeof detail.missing === 'string' && detail.missing !== '';
  // A primitive checks rights again when the target is known, before any effect.
  const isRefused = isMissing || typeof detail.rule === 'string';
  if (stage === 'primitive' && isRefused) return 'right';
  if (stage !== undefined && Object.hasOwn(AT, stage)) return AT[stage];
  if (call.deniedAt === undefined) return undefined;
  if (typeof detail.guard === 'string') return 'policy';
  return isMissing ? 'right' : 'policy';
}

const ruleIn = (detail: JsonObject): string => {
  const missing = plainText(detail.missing ?? '');
  return (
    plainText(detail.guard ?? detail.rule ?? '') || (missing === '' ? '' : `${missing} is missing`)
  );
};

/** Returns the gates in order. A call passes the gates before the refusal and does not reach those after it. */
export function gatesOf(entry: Call, events: CallEvents): Gate[] {
  const fault = faultOf(events);
  const detail = fault?.detail ?? {};
  const answer = entry.approval?.state;
  const asks = answer === 'pending';
  const no = answer === 'denied' || answer === 'expired';
  const limit = fault?.code.endsWith('_exceeded') ? 'limits' : undefined;
  const at = limit ?? refusedAt(entry, detail) ?? (asks || no ? 'policy' : undefined);
  const stopped = at === undefined ? STAGES.length : STAGES.indexOf(at);
  return STAGES.map((stage, index): Gate => {
    if (index > stopped) return { stage, state: 'not reached', by: '' };
    if (index === stopped) {
      if (asks) return { stage, state: 'asks', by: ruleIn(detail) || 'needs approval' };
      const reason = answer === 'expired' ? 'expired' : no ? 'denied by a person' : '';
      return { stage, state: 'refused', by: reason || ruleIn(detail) || (fault?.code ?? '') };
    }
    if (stage === 'policy' && answer === 'used') {
      return { stage, state: 'passed', by: 'approved by a person' };
    }
    if (stage !== 'run') return { stage, state: 'passed', by: '' };
    if (entry.result === undefined) return { stage, state: 'open', by: 'no result yet' };
    const isUnknown = fault?.code === 'outcome_unknown';
    return entry.result.isError
      ? { stage, state: isUnknown ? 'unknown' : 'failed', by: fault?.code ?? '' }
      : { stage, state: 'passed', by: '' };
  });
}

/** Outcome in one line, without untrusted text. */
export function verdictOf(gates: readonly Gate[]): string {
  const stop = gates.find(({ state }) => state === 'refused' || state === 'asks');
  if (stop?.state === 'asks') return 'Waits for a person; nothing was done';
  if (stop?.stage === 'limits') return 'Stopped by a limit before anything was done';
  if (stop) return stop.stage === 'run' ? 'Denied while it ran' : 'Denied before anything was done';
  const run = gates.find(({ stage }) => stage === 'run');
  if (run?.state === 'failed') return 'It ran and failed';
  if (run?.state === 'passed') return 'Done';
  return run?.state === 'open' ? 'In progress' : 'Outcome unknown';
}

/** Returns remedies: those that the rules name, and the line that would grant the missing right. */
export function waysOut({ detail }: { detail: JsonObject }): string[] {
  const ways = textsAt(detail, 'ways');
  const missing = plainText(detail.missing ?? '');
  // A rule refuses: no line of the permissions would help, and its message names the remedy.
  if (missing === '' || typeof detail.rule === 'string') return ways.map(masked);
  const attempted = plainText(detail.attempted ?? '');
  const isTool = missing.startsWith('tool.') && missing !== 'tool.execute';
  const scope = isTool ? { id: attempted } : scopeIn(detail.scope);
  const capability = isTool ? 'tool.execute' : missing;
  const permission = permissionFor({ capability, scope });
  const line = permission && `add ${formatPermission(permission)} to its <permissions>`;
  return [...ways, ...(line === undefined ? [] : [line])].map(masked);
}

const scopeIn = (scope: Json | undefined): Scope =>
  isObject(scope)
    ? Object.fromEntries(Object.entries(scope).map(([name, value]) => [name, plainText(value)]))
    : {};
