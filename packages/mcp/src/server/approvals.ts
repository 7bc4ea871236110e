// Asks the person at the client about a call that needs approval. The approval request is stored in
// the registry first, bound to the exact call. An answer is valid once, and only with the state
// that was made for this question.
import { randomUUID } from 'node:crypto';
import {
  type Failure,
  getOwn,
  isObject,
  type Json,
  type JsonObject,
  type Outcome,
  ok,
  onOneLine,
  plainText,
  textAt,
} from '@kernmantle/core/base';
import type { Approval, Store, ThreadRow } from '@kernmantle/core/store';
import {
  type InputRequiredResult,
  inputRequired,
  inputResponse,
  type McpServer,
  ProtocolError,
  ProtocolErrorCode,
  type ServerContext,
} from '@modelcontextprotocol/server';
import { handlesOf } from './handles.ts';
import type { ServerParts } from './host.ts';
import { capabilitiesOf } from './request-state.ts';

/** A longer question does not fit in a dialog and must be decided elsewhere. */
const MAX_SHOWN = 8000;
/** Longer texts are cut before they are stored for display. */
const MAX_TEXT = 2000;
const MAX_STATE = 32_768;
const MAX_ANSWERED = 10_000;
/** Maximum number of descendants that are searched. */
const MAX_BELOW = 100;
const KEY = 'approval';
const PARKED = ['waiting', 'needs_input'] as const;

/** Answered questions of this process. A question of an earlier process is invalid. */
interface Questions {
  readonly process: string;
  readonly answered: Set<string>;
}
const byLibrary = new WeakMap<object, Questions>();

function questionsOf({ host: { library } }: ServerParts): Questions {
  const questions = byLibrary.get(library) ?? {
    process: randomUUID(),
    answered: new Set<string>(),
  };
  byLibrary.set(library, questions);
  return questions;
}

/** Accepts a state at most once. */
function takeOnce({ answered }: Questions, nonce: string): boolean {
  if (answered.has(nonce)) return false;
  answered.add(nonce);
  for (const old of answered) if (answered.size > MAX_ANSWERED) answered.delete(old);
  return true;
}

interface ApprovalPorts extends ServerParts {
  readonly server: McpServer;
}

/** Performs a checked call and returns its outcome. */
type MakeCall = (request: JsonObject) => Promise<Outcome<Json>>;

const refused = (why: string): ProtocolError =>
  new ProtocolError(ProtocolErrorCode.InvalidParams, why, { reason: 'invalid_request_state' });

function canAsk({ server, host, client }: ApprovalPorts, context: ServerContext): boolean {
  const { elicitation } = capabilitiesOf(server, context);
  const hasForms = elicitation !== undefined && (elicitation.form ?? !elicitation.url);
  return hasForms !== false && client().role === 'approve' && host.policy().elicits('mcp');
}

/** Returns the approval requests that block this call, or a thread and its descendants. */
function waitingFor(
  { host, client }: ApprovalPorts,
  request: JsonObject,
  outcome: Outcome<Json>,
): { wanted: { approval: string } | { thread: string }; again: JsonObject } | undefined {
  if (!outcome.ok) {
    const { code, detail } = outcome.error;
    const { answer, approval } = detail;
    if (code !== 'needs_input' || answer !== 'pending') return undefined;
    if (typeof approval !== 'string') return undefined;
    return { wanted: { approval }, again: request };
  }
  const status = getOwn(outcome.output, 'status');
  // A running thread can wait for a child that needs approval.
  if (![...PARKED, 'running'].some((one) => one === status)) return undefined;
  const handle = textAt(outcome.output, 'thread_id');
  const thread = handlesOf(host, client()).idOf(handle);
  if (thread === undefined) return undefined;
  // The same call could start a second thread, so the client waits for this one.
  const again = { item_type: 'thread', item_id: handle, action: 'wait' };
  return { wanted: { thread }, again };
}

/** Returns the first pending request of the thread, or else of its descendants, oldest first. */
async function waitingBelow(store: Store, thread: string): Promise<Approval | undefined> {
  const parked = await store.query({
    within: thread,
    status: PARKED,
    direction: 'asc',
    limit: MAX_BELOW,
  });
  const below = parked.ok ? parked.output.rows.map(({ id }) => id) : [];
  for (const id of new Set([thread, ...below])) {
    const rows = await store.approvals({ thread: id, state: 'pending' });
    const row = rows.ok ? rows.output.find(({ state }) => state === 'pending') : undefined;
    if (row) return row;
  }
  return undefined;
}

/** True if the request is about a call of this client. */
function isOfClient({ thread, binding }: Approval, client: string): boolean {
  const { surface, caller } = binding;
  const isNamed = typeof caller === 'string' && caller.split('@').at(-1) === client;
  return thread === undefined && surface === 'mcp' && isNamed;
}

/** Returns undefined if no approval is pending. */
async function openApproval(
  ports: ApprovalPorts,
  request: JsonObject,
  outcome: Outcome<Json>,
): Promise<{ row: Approval; again: JsonObject } | undefined> {
  const waiting = waitingFor(ports, request, outcome);
  if (!waiting) return undefined;
  const store = await ports.host.store();
  if (!store.ok) return undefined;
  const { wanted, again } = waiting;
  if ('thread' in wanted) {
    const row = await waitingBelow(store.output, wanted.thread);
    return row && { row, again };
  }
  const rows = await store.output.approvals({ id: wanted.approval });
  const row = rows.ok ? rows.output.find(({ state }) => state === 'pending') : undefined;
  // A tool can fail with any text. It must not let this client answer the requests of others.
  return row && isOfClient(row, ports.client().id) ? { row, again } : undefined;
}

/** Returns the question with the exact call. Undefined if it is too long for a dialog. */
function questionOf({ id, kind, shown }: Approval): string | undefined {
  const line = (label: string, value: Json | undefined): string[] =>
    value === undefined || value === '' ? [] : [onOneLine(`${label}: ${plainText(value)}`)];
  const args = isObject(shown.arguments) ? shown.arguments : {};
  const isCut = Object.values(args).some((one) => typeof one === 'string' && one.length > MAX_TEXT);
  const text = [
    kind === 'question' ? 'A thread asks' : 'This needs your approval',
    ...line('Question', shown.because === undefined ? undefined : shown.question),
    ...line('Why', shown.because ?? shown.question),
    ...line('What', shown.operation ?? shown.action),
    ...line('Asked by', shown.asked_by),
    ...line('Target', shown.target),
    ...line('Directive', shown.directive),
    onOneLine(`Arguments: ${JSON.stringify(args)}`),
    ...line('Named by', shown.origins),
    ...line('Tainted', shown.tainted),
    ...line('Done before', shown.before),
    ...line('Sources', shown.sources),
    ...line('To change', shown.limits),
    ...line('Line', shown.line),
    `Approval: ${id}`,
  ].join('\n');
  return isCut || text.length > MAX_SHOWN ? undefined : text;
}

/** Additional choice for a path, an address or a command, which is trusted from then on. */
const VALUE = 'approve this value from now on';

const formOf = ({ kind, shown }: Approval) => ({
  type: 'object' as const,
  properties: {
    decision: {
      type: 'string' as const,
      title: 'Decision',
      enum: ['approve', ...(kind === 'call' && isObject(shown.roles) ? [VALUE] : []), 'deny'],
    },
    ...(kind === 'question' && {
      words: { type: 'string' as const, title: 'Your answer', maxLength: 4000 },
    }),
  },
  required: ['decision'],
});

/** Returns the question for the client. Undefined if the client cannot be asked. */
async function offer(
  ports: ApprovalPorts,
  call: Json,
  request: JsonObject,
  outcome: Outcome<Json>,
  context: ServerContext,
): Promise<InputRequiredResult | undefined> {
  if (!canAsk(ports, context)) return undefined;
  const open = await openApproval(ports, request, outcome);
  const message = open && questionOf(open.row);
  if (!open || message === undefined) return undefined;
  const payload = {
    approval: open.row.id,
    nonce: randomUUID(),
    process: questionsOf(ports).process,
    again: open.again,
  };
  if (JSON.stringify(payload).length > MAX_STATE) return undefined;
  const form = inputRequired.elicit({ message, requestedSchema: formOf(open.row) });
  return inputRequired({
    inputRequests: { [KEY]: form },
    requestState: await ports.states.mint('approval', call, payload, context),
  });
}

/** Returns the decision of the person. Undefined if there was none. */
function decisionIn({
  mcpReq,
}: ServerContext): { approve: boolean; words?: string; value?: true } | undefined {
  const response = inputResponse(mcpReq.inputResponses, KEY);
  if (response.kind !== 'elicit' || response.action !== 'accept') return undefined;
  const { decision, words } = response.content ?? {};
  if (decision === 'deny') return { approve: false };
  if (decision === VALUE) return { approve: true, value: true };
  if (decision !== 'approve') return undefined;
  const hasWords = typeof words === 'string' && words.trim() !== '';
  return { approve: true, ...(hasWords && { words: words.slice(0, 4000) }) };
}

/**
 * Makes a call. If it needs approval and this client can ask a person, the client is asked and
 * returns with the answer. Otherwise the answer names the approval request, so that it can be
 * decided elsewhere. `call` is the call as the client sent it, `request` the resulting call.
 */
export async function withApprovals(
  ports: ApprovalPorts,
  { call, request }: { readonly call: Json; readonly request: JsonObject },
  context: ServerContext,
  make: MakeCall,
): Promise<Outcome<Json> | InputRequiredResult> {
  const state = ports.states.read('approval', call, context);
  if (!state) {
    const outcome = await make(request);
    return (await offer(ports, call, request, outcome, context)) ?? outcome;
  }
  const { approval, nonce, again } = state;
  const questions = questionsOf(ports);
  if (
    state.process !== questions.process ||
    typeof nonce !== 'string' ||
    typeof approval !== 'string'
  ) {
    throw refused('Invalid or expired requestState');
  }
  if (!isObject(again) || !takeOnce(questions, nonce))
    throw refused('this question already has an answer');
  if (!canAsk(ports, context)) throw refused('this client cannot decide approval requests');
  const decision = decisionIn(context);
  // Without a decision the request stays pending, and the client is not asked again.
  if (!decision) return await make(again);
  const decided = await ports.host.decide(approval, decision, ports.client());
  const answered = decided.ok ? decided : await changedFile(ports, decided, approval);
  if (!answered.ok) return answered;
  const outcome = await continueCall(ports, answered.output, again, make);
  return (await offer(ports, call, again, outcome, context)) ?? outcome;
}

/** Returns the pending request again if its file has changed since the question. */
async function changedFile(
  { host }: ApprovalPorts,
  refusal: Failure,
  id: string,
): Promise<Outcome<Approval>> {
  const { code, detail } = refusal.error;
  if (code !== 'conflict' || detail.path === undefined) return refusal;
  const store = await host.store();
  const rows = store.ok ? await store.output.approvals({ id, state: 'pending' }) : store;
  const [row] = rows.ok ? rows.output : [];
  return row ? ok(row) : refusal;
}

/** Makes the approved call, or resumes the thread that waited. */
async function continueCall(
  ports: ApprovalPorts,
  decided: Approval,
  again: JsonObject,
  make: MakeCall,
): Promise<Outcome<Json>> {
  if (again.item_type !== 'thread') return await make(again);
  const child = await parkedBelow(ports, decided, plainText(again.item_id));
  const resumed = await make({ ...again, ...(child && { item_id: child }), action: 'resume' });
  // A child can resume by itself. The client waits for the thread whose handle it has.
  return resumed.ok || child ? await make(again) : resumed;
}

/** Returns the handle of the child that created the request. A hook resumes with its own thread. */
async function parkedBelow(
  { host, client }: ApprovalPorts,
  { thread: asker }: Approval,
  handle: string,
): Promise<string | undefined> {
  const handles = handlesOf(host, client());
  const handed = handles.idOf(handle);
  const store = await host.store();
  if (!store.ok || handed === undefined) return undefined;
  for (let id = asker; id !== undefined && id !== handed; ) {
    const row: Outcome<ThreadRow> = await store.output.thread(id);
    if (!row.ok || !row.output.chain.includes(handed)) return undefined;
    if (row.output.kind === 'thread') return handles.handleOf(id);
    id = row.output.parent;
  }
  return undefined;
}
