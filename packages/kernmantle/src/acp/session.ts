// Holds one session of a client: a conversation whose events the client gets, and whose approval requests it answers.
import { type JsonObject, masked, type Outcome, ok, plainText } from '@kernmantle/core/base';
import type { RunRequest, ThreadResult } from '@kernmantle/core/harness';
import { decodeAll } from '@kernmantle/core/journal';
import type { Actor, Runtime, Threads } from '@kernmantle/core/runtime';
import type { ThreadRow } from '@kernmantle/core/store';
import { createFigures } from '../conversation/figures.ts';
import { type ChatLine, type ConversationSession, createSession } from '../conversation/session.ts';
import { createOptions, type SessionSettings } from './options.ts';
import { createPermissions } from './permission.ts';
import { RPC, type Rpc, refuse } from './rpc.ts';
import { createUpdates } from './updates.ts';

/** Number of events that a loaded session replays. */
const MAX_REPLAYED = 2000;
/** Time in which a cancelled thread can record its interruption. The client gets its answer after it in any case. */
const CANCEL_MS = 1500;

interface SessionPorts {
  readonly id: string;
  readonly runtime: Runtime;
  readonly rpc: Rpc;
  readonly by: Actor;
  readonly request: RunRequest;
  onError(error: unknown): void;
}

export type AcpSession = ReturnType<typeof createAcpSession>;

const MAX_TOKENS: ReadonlySet<string> = new Set(
  ['tokens', 'input_tokens', 'output_tokens', 'context'].map((name) => `${name}_exceeded`),
);

/** Returns the failure of a prompt as a JSON-RPC error. */
function promptFailure(error: { code: string; detail: JsonObject }, thread: string) {
  const { code, detail } = error;
  const message = plainText(detail.message);
  const data = { code, thread };
  if (typeof detail.variable === 'string') return refuse(RPC.authRequired, message, data);
  if (detail.attachment !== undefined || code === 'unsupported_input') {
    return refuse(RPC.invalidParams, message, data);
  }
  const isBusy = code === 'conflict' || code === 'lease_held';
  return refuse(isBusy ? RPC.invalidRequest : RPC.internal, message, data);
}

export function createAcpSession(ports: SessionPorts) {
  const { id, runtime, rpc, by, request } = ports;
  const { library, project } = runtime;
  const send = (update: JsonObject): void =>
    void rpc.notify('session/update', { sessionId: id, update });
  const updates = createUpdates({ library, project, send });
  const figures = createFigures(library);
  /** Settings that the next prompt brings. */
  let news: SessionSettings = {};
  const options = createOptions(library, request.directive, (set) => {
    news = { ...news, ...set };
  });
  let talk: ConversationSession | undefined;
  let permissions: ReturnType<typeof createPermissions> | undefined;
  let work: Promise<Outcome<string>> | undefined;
  let [isCancelled, title] = [false, ''];
  let onCancel = (): void => {};

  /** Opens the threads with the first use, so that a session without a prompt writes no file. */
  async function open(): Promise<Outcome<ConversationSession>> {
    if (talk) return ok(talk);
    const opened = await runtime.threads({
      onText: (thread, piece) => thread === id && updates.onText(piece),
      onEvent(thread, event) {
        permissions?.hear(thread, event);
        if (thread === id) updates.onEvent(event);
        talk?.hear(thread, event);
      },
    });
    if (!opened.ok) return opened;
    const { store } = opened.output;
    await store.sweep();
    const mayApprove = (): boolean => runtime.policies().policy.acp.may_approve;
    permissions = createPermissions({ rpc, session: id, store, updates, mayApprove });
    const { personFor } = permissions;
    talk = createSession(opened.output, { by, personFor }, { ...request, id });
    return ok(talk);
  }

  /** Sends the cost and the title of the thread. */
  async function sendFigures({ store }: Pick<Threads, 'store'>): Promise<void> {
    const row = await store.thread(id);
    if (!row.ok) return;
    const { used, size, spent, currency } = await figures(row.output, updates.model());
    const cost = { amount: spent, currency };
    if (size > 0) send({ sessionUpdate: 'usage_update', used, size, cost });
    const now = row.output.title ?? '';
    if (now === title) return;
    title = now;
    const updatedAt = new Date(row.output.updated).toISOString();
    send({ sessionUpdate: 'session_info_update', title: masked(title), updatedAt });
  }
  /** Tells why the thread waits, if the client cannot end that. */
  async function sendWaiting({ store }: Pick<Threads, 'store'>, reason: string): Promise<void> {
    const open = await store.approvals({ thread: id, state: 'pending' });
    const ids = open.ok ? open.output.map((row) => row.id) : [];
    const how = ids.map((one) => `\`km approvals show ${one}\``).join(', ');
    updates.chunk('agent_message', `\n\n[waiting: ${reason}${how === '' ? '' : `; see ${how}`}]\n`);
  }
  async function ending(
    done: Outcome<ThreadResult>,
    use: ConversationSession,
  ): Promise<Outcome<string>> {
    if (isCancelled) return ok('cancelled');
    if (!done.ok) return promptFailure(done.error, id);
    await sendFigures(use);
    const { status, code = '', reason } = done.output;
    if (updates.wasRefused()) return ok('refusal');
    if (status === 'completed') {
      sendPlan('completed');
      return ok('end_turn');
    }
    if (code === 'turns_exceeded') return ok('max_turn_requests');
    if (MAX_TOKENS.has(code)) return ok('max_tokens');
    if (['waiting', 'needs_input', 'paused'].includes(status)) {
      await sendWaiting(use, reason || status);
      return ok('end_turn');
    }
    return promptFailure({ code: code || status, detail: { message: reason || status } }, id);
  }

  /** Sends the steps of the directive, if it has several. Nobody knows which of them is under way. */
  function sendPlan(status: 'pending' | 'completed'): void {
    const item = library.find('directive', request.directive);
    const steps = item.ok ? (item.output.directive?.process.steps ?? []) : [];
    const entries = steps.map(({ name }) => ({ content: name, priority: 'medium', status }));
    if (entries.length > 1) send({ sessionUpdate: 'plan', entries });
  }
  /** Runs a line, or resumes the thread without one. Returns the reason for which it stopped. */
  async function run(line?: ChatLine): Promise<Outcome<string>> {
    if (work) return refuse(RPC.invalidRequest, `session \`${id}\` is at work; cancel it first`);
    isCancelled = false;
    updates.begin();
    const { promise: cancelled, resolve } = Promise.withResolvers<Outcome<string>>();
    onCancel = () => void setTimeout(() => resolve(ok('cancelled')), CANCEL_MS).unref();
    const round = async (): Promise<Outcome<string>> => {
      const opened = await open();
      if (!opened.ok) return promptFailure(opened.error, id);
      if (isCancelled) return ok('cancelled');
      sendPlan('pending');
      opened.output.set(news);
      news = {};
      return await ending(await opened.output.round(line), opened.output);
    };
    const caught = (error: unknown): Outcome<string> => {
      ports.onError(error);
      return refuse(RPC.internal, 'internal error', { thread: id });
    };
    work = round()
      .catch(caught)
      .finally(() => {
        work = undefined;
      });
    return await Promise.race([work, cancelled]);
  }

  async function replay({ store }: Pick<Threads, 'store'>): Promise<Outcome<null>> {
    const read = await store.read(id, { last: MAX_REPLAYED });
    const events = read.ok ? decodeAll(read.output) : read;
    if (!events.ok) return promptFailure(events.error, id);
    for (const event of events.output) {
      permissions?.hear(id, event);
      if (event.type === 'thread_start') updates.chunk('person', event.data.message);
      updates.onPast(event);
    }
    await sendFigures({ store });
    return ok(null);
  }

  return {
    id,
    runtime,
    options,
    run,
    isWorking: () => work !== undefined,
    /** Continues a thread of the store. `isReplayed`: its newest events are sent again. */
    async continue(isReplayed: boolean): Promise<Outcome<ThreadRow>> {
      const opened = await open();
      if (!opened.ok) return promptFailure(opened.error, id);
      const { store } = opened.output;
      const row = await store.thread(id);
      const served = store.fleet ? runtime.served() : undefined;
      const own = served?.ok ? served.output.project : project;
      if (!row.ok || row.output.runner !== 'acp' || row.output.project !== own)
        return refuse(RPC.notFound, `session \`${id}\` not found`);
      opened.output.open(id);
      const set = await store.read(id, { types: ['thread_start', 'signal'] });
      const past = set.ok ? decodeAll(set.output) : set;
      for (const { type, data } of past.ok ? past.output : []) {
        if (type === 'thread_start' || type === 'signal') options.restore(data);
      }
      const sent = isReplayed ? await replay(opened.output) : ok(null);
      return sent.ok ? row : sent;
    },
    /** Asks the pending approval requests of a waiting thread again, without a prompt. */
    async askAgain(): Promise<void> {
      const done = await run();
      if (!done.ok) updates.chunk('agent_message', `\n\n[${done.error.detail.message}]\n`);
    },
    async cancel(): Promise<void> {
      if (!work) return;
      isCancelled = true;
      onCancel();
      await talk?.interrupt();
    },
    /** Ends the work of this process. The thread is interrupted and can be resumed. */
    async close(): Promise<void> {
      isCancelled = true;
      talk?.abort();
      talk?.close();
      await work;
    },
  };
}
