// Runs one turn: model requests with the whole conversation, until there is a reply or no retry is left.
import { hash } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import { type Failure, fail, type Json, type Outcome, ok, plainJson } from '../../base/index.ts';
import { type ActPorts, makeValue, type Operation, perform, type Value } from '../../flow/index.ts';
import { type JournalEvent, withoutSeals } from '../../journal/index.ts';
import { estimateTokens, type Message, type ModelReply } from '../../llm/index.ts';
import { requestFiles } from '../files/fit-files.ts';
import { raise } from '../hooks/raise-checkpoint.ts';
import { asLimitFault } from '../limits/limit.ts';
import type { Turn } from '../loop.ts';
import { askAbout } from '../rights/ask-about-call.ts';
import { frameOf } from '../rights/thread-rules.ts';
import {
  runInTime,
  STOPS_STREAM,
  STOPS_WAIT,
  watchForInterruption,
} from '../thread/interruption.ts';
import type { ModelLine, ModelRequest } from '../thread/ports.ts';
import { lastTurnLine } from '../thread/prompt.ts';
import { addToConversation } from '../thread/talk.ts';
import type { Interruptible, OwnJournal, Talk, Thread } from '../thread/thread.ts';
import { MODEL_TOOLS } from './ask-model.ts';
import { NO_TRIES, type Tries } from './retry-turn.ts';
import { TurnAccount } from './turn-account.ts';

/** Adds a line at the end of the messages. Providers require that user and assistant messages alternate. */
function withLine(messages: readonly Message[], text: string): Message[] {
  const last = messages.at(-1);
  const block = { type: 'text', text } as const;
  return last?.role === 'user'
    ? [...messages.slice(0, -1), { role: 'user', content: [...last.content, block] }]
    : [...messages, { role: 'user', content: [block] }];
}

async function requestOf(thread: Thread, account: TurnAccount): Promise<ModelRequest> {
  const { ports, place, journal, talk, budget } = thread;
  const { conversation, ratio, isStreamKept } = talk;
  const { watch } = ports;
  const file = isStreamKept ? watch.rawStream?.(place.id, journal.turn) : undefined;
  const { messages, ...files } = await requestFiles(thread);
  // The last turn follows from the turns that are counted and the limit in force. The journal has both, so a
  // replay needs no event for it. A question of a script has no turns to plan.
  const { turns } = budget.meter.read();
  const hasNext = talk.tools?.length !== 0 && !talk.isCompared;
  const isLast = BigInt(turns) === budget.limits.turns?.value && hasNext;
  const line = isLast ? lastTurnLine(turns) : undefined;
  return {
    system: talk.system,
    messages: line === undefined ? messages : withLine(messages, line),
    ...files,
    tools: talk.tools ?? MODEL_TOOLS,
    // The answer pays for the line, which the reservation does not count.
    maxTokens: Math.max(1, account.maxTokens - estimateTokens(line?.length ?? 0)),
    written: conversation.written,
    reading: {
      requestBytes: account.bytes,
      ...(ratio === undefined ? {} : { ratio }),
      ...(watch.onText ? { onText: (piece) => watch.onText?.(place.id, piece) } : {}),
    },
    marks: () => conversation.marks(),
    sinks: () => watch.sinks?.(place.id),
    cacheKey: hash('sha256', place.chain.at(-1) ?? place.id).slice(0, 32),
    // A comparison reads a journal whose secrets are still references, so its seals are not exact.
    areSealsOff: talk.areSealsOff === true || talk.isCompared === true,
    raw: [file, watch.traced?.(place.id)].filter((stream) => stream !== undefined),
  };
}

/** Returns the failure of a model that refused to answer. Another model can answer. */
function refusal(reply: ModelReply): Failure | undefined {
  if (reply.content.some(({ type }) => type === 'tool_call')) return undefined;
  return fail('provider_error', 'the model refused to answer', {
    reason: 'refusal',
    usage: { ...reply.usage },
    reported: true,
  });
}

async function ask(
  thread: Thread,
  account: TurnAccount,
  line: ModelLine | undefined,
  signal: AbortSignal = thread.control.signal,
): Promise<Outcome<Value>> {
  account.reply = undefined;
  account.calledOff = undefined;
  if (!line) return fail('internal_error', 'no model was opened for this request');
  const answer = await line.ask(await requestOf(thread, account), signal);
  if (!answer.ok) return answer;
  const refused = answer.output.stop === 'refusal' ? refusal(answer.output) : undefined;
  if (refused) return refused;
  account.reply = answer.output;
  account.shown = withoutSeals(answer.output.content as unknown as Json);
  return ok(makeValue(account.shown));
}

const operation = ({ model, compact }: Talk, turn: number): Operation => ({
  type: 'model',
  subtype: model.provider,
  name: model.model,
  opLabels: ['op:model', `op:model:${model.provider}`],
  source: 'src:llm',
  retryOwner: false,
  metadata: { turn, ...(compact && { purpose: 'compaction' }) },
});

export async function runTurn(thread: Thread, tries: Tries = NO_TRIES): Promise<Turn> {
  const {
    ports,
    journal,
    talk: { conversation },
  } = thread;
  if (thread.talk.unjudged) return await judgeAgain(thread, thread.talk.unjudged.said);
  const judged = thread.hooks.pending.size > 0 ? await judgeFault(thread) : undefined;
  if (judged) return judged;
  if (tries === NO_TRIES) journal.turn += 1;
  if (ports.replay) {
    await journal.catchUp();
    const { stopped, ending } = thread.control;
    // The thread was stopped while the request waited for its reservation.
    if (stopped && ending && !ports.replay.begins(thread.place.id)) return { ending };
  }
  const account = new TurnAccount(thread, tries);
  const step = { kind: 'turn' as const, turn: journal.turn };
  const frame = frameOf(
    thread,
    askAbout(thread, {
      id: '',
      key: '',
      effect: 'write',
      about: () => plainJson(conversation.messages()),
    }),
  );
  let line: ModelLine | undefined;
  const act: ActPorts = {
    async gate() {
      const { id } = thread.place;
      // Guards of the directive judge the operation `model` itself, not the tool that sends the request.
      const caller = { surface: 'harness', name: id, frame: ports.frame(), __thread_id: id };
      const opened = await ports.model(thread.talk.model, caller);
      line = opened.ok ? opened.output : undefined;
      return opened.ok ? ok(null) : opened;
    },
    limits: account,
    run: (body) =>
      runInTime(thread, STOPS_STREAM, body, (failure, cause) => {
        account.calledOff = cause;
        return failure;
      }),
    keep: (entry) => account.keep(entry),
    record: (entry) => account.record(entry),
    checkpoint: (event) =>
      thread.talk.compact || (account.next && (event.name === 'error' || event.name === 'limit'))
        ? undefined
        : raise(thread, event, step),
  };
  const marks = conversation.marks();
  const outcome = await perform(
    operation(thread.talk, journal.turn),
    [{ name: 'conversation', role: 'content', value: makeValue(null, { descriptor: marks }) }],
    (_inputs, { signal }) => ask(thread, account, line, signal),
    frame,
    act,
  );
  const { reply } = account;
  const isOver = thread.control.ending !== undefined || journal.lost() !== undefined;
  return outcome.ok && reply && !isOver ? { reply } : await after(thread, account, outcome);
}

/** Asks a model in a turn without tools, in a conversation of its own. */
export const runApart = (
  thread: Thread,
  own: Pick<Talk, 'model' | 'price' | 'conversation' | 'system' | 'compact'>,
): Promise<Turn> => {
  const { references: _, ...talk } = thread.talk;
  const plain = {
    ratio: undefined,
    fallback: undefined,
    triedModels: new Set<string>(),
    tools: [],
  };
  return runTurn({ ...thread, talk: { ...talk, ...plain, ...own } });
};

/** Asks the hooks again about a recorded reply after their process was lost. */
async function judgeAgain(thread: Thread, reply: readonly JournalEvent[]): Promise<Turn> {
  const { journal, control, hooks } = thread;
  const [first] = reply;
  const recorded =
    first?.type === 'assistant_message' && !first.data.injected ? first.data : undefined;
  const result = makeValue(withoutSeals((recorded?.content ?? null) as unknown as Json));
  const step = { kind: 'turn' as const, turn: journal.turn };
  const verdict = await raise(thread, { name: 'after_step', arguments: [], result }, step);
  if (control.ending && hooks.pending.size > 0) return { ending: control.ending };
  const isSaid = recorded && (verdict === undefined || verdict.action === 'continue');
  const end: JournalEvent = {
    type: 'turn_end',
    data: isSaid ? { done: true, judged: true } : { withheld: true },
  };
  journal.note(end);
  addToConversation(thread, end);
  if (control.ending) return { ending: control.ending };
  if (!isSaid) return { again: true };
  const { stop, usage, model } = recorded;
  // A reply of a model contains neither results nor files.
  const content = recorded.content.filter(
    (block) => block.type !== 'tool_result' && block.type !== 'file',
  );
  return { reply: { content, stop, usage, model } };
}

/** Asks the hook again about a failed request after its process was lost. */
async function judgeFault(thread: Thread): Promise<Turn | undefined> {
  const { hooks, control } = thread;
  const [start] = [...hooks.pending.values()].filter(
    ({ call_id, step }) => call_id === undefined && /^turn \d+$/.test(step),
  );
  if (!start?.fault) return undefined;
  const { step } = start;
  const failure: Failure = { ok: false, error: start.fault };
  // The recorded event says whether the fault is a limit.
  const { error: fault } = start.event === 'limit' ? asLimitFault(failure) : failure;
  const about = { kind: 'turn' as const, turn: Number(step.slice('turn '.length)) };
  const verdict = await raise(thread, { name: 'error', fault, arguments: [] }, about);
  if (control.ending) return { ending: control.ending };
  if (verdict?.action === 'retry') return undefined;
  if (verdict?.action === 'end') return { again: true };
  return { ending: { status: 'failed', reason: fault.detail.message, code: fault.code } };
}

/** Returns the outcome of a turn without a reply. */
async function after(thread: Thread, account: TurnAccount, outcome: Outcome<Value>): Promise<Turn> {
  const { journal } = thread;
  const lost = journal.lost();
  if (lost) return { ending: { status: 'interrupted', reason: lost.error.detail.message } };
  if (thread.control.ending) {
    // A hook is asked before the request. The turn has not begun and keeps its number.
    if (!account.isBegun && thread.hooks.pending.size > 0) journal.turn -= 1;
    return { ending: thread.control.ending };
  }
  const { next } = account;
  if (outcome.ok) {
    // A hook skipped the request. The next one has the same turn number, so that endless skips are noticed.
    journal.turn -= 1;
    return { again: true };
  }
  if (thread.control.signal.aborted || next?.do === 'again') {
    if (!account.isBegun) journal.turn -= 1;
    return { again: true };
  }
  // Signals are handled before a second try.
  if (next?.do === 'wait' && !(await pause(thread, next.ms))) return { again: true };
  if (next) return await runTurn(thread, account.tries);
  const { code, detail } = outcome.error;
  return { ending: { status: 'failed', reason: detail.message, code } };
}

/** Waits. Returns false if a signal or the deadline ended the wait. */
async function pause(thread: Interruptible & OwnJournal, ms: number): Promise<boolean> {
  // The recorded run has waited already.
  if (thread.ports.replay) {
    await thread.journal.catchUp();
    return !thread.journal.signals().some(({ kind }) => STOPS_WAIT.has(kind));
  }
  const interruption = await watchForInterruption(thread, STOPS_WAIT);
  await sleep(ms, undefined, { signal: interruption.signal }).catch(() => undefined);
  interruption.release();
  return !interruption.signal.aborted;
}
