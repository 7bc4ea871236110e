// One turn: a model request with everything said so far, until there is a reply or nothing is left
// to try.
import { setTimeout as sleep } from 'node:timers/promises';
import { type Failure, fail, type Json, type Outcome, ok } from '../../base/index.ts';
import {
  childFrame,
  makeValue,
  type Operation,
  type Ports,
  perform,
  type Value,
} from '../../flow/index.ts';
import type { ModelReply } from '../../llm/index.ts';
import { raise } from '../hooks/raise-checkpoint.ts';
import type { Turn } from '../loop.ts';
import { deadlineFault, STOPS_STREAM, takeOff } from '../thread/interruption.ts';
import type { ThreadContext } from '../thread/thread.ts';
import { MODEL_TOOLS } from './ask-model.ts';
import { createTurnAccount, type TurnAccount } from './turn-account.ts';

/** Sends the request; the deadline and those who steer the thread can call it off. */
async function ask(thread: ThreadContext, account: TurnAccount): Promise<Outcome<ModelReply>> {
  const { world, conversation } = thread;
  const flight = takeOff(thread, STOPS_STREAM);
  try {
    // INVARIANT: just before an effect; whoever takes off has looked at the lease.
    if (flight.cause() === 'lost') {
      return fail('stale_epoch', 'this process no longer holds the thread', { sent: false });
    }
    const answer = await world.model(
      {
        model: thread.model,
        system: thread.system,
        messages: conversation.messages(),
        tools: thread.tools ?? MODEL_TOOLS,
        maxTokens: account.maxTokens,
        written: conversation.written,
        reading: {
          requestBytes: account.bytes,
          ...(thread.ratio === undefined ? {} : { ratio: thread.ratio }),
          onText: (piece) => world.onText?.(thread.id, piece),
        },
        ...(thread.isStreamKept && world.rawStream
          ? { raw: world.rawStream(thread.id, thread.log.turn) }
          : {}),
      },
      {
        surface: 'harness',
        name: thread.id,
        frame: world.frame(),
        signal: flight.signal,
        __thread_id: thread.id,
      },
    );
    if (answer.ok) return refusal(answer.output) ?? answer;
    account.calledOff = flight.cause();
    return account.calledOff === 'duration' ? deadlineFault(thread, answer) : answer;
  } finally {
    flight.land();
  }
}

/** A model that will not answer: another one may. */
function refusal(reply: ModelReply): Failure | undefined {
  const hasCalls = reply.content.some(({ type }) => type === 'tool_call');
  if (reply.stop !== 'refusal' || hasCalls) return undefined;
  return fail('provider_error', 'the model refused to answer', {
    reason: 'refusal',
    usage: { ...reply.usage },
  });
}

async function body(thread: ThreadContext, account: TurnAccount): Promise<Outcome<Value>> {
  account.reply = undefined;
  account.calledOff = undefined;
  const answer = await ask(thread, account);
  if (!answer.ok) return answer;
  account.reply = answer.output;
  return ok(makeValue(answer.output.content as unknown as Json));
}

const operation = ({ model, log }: ThreadContext): Operation => ({
  type: 'model',
  subtype: model.provider,
  name: model.model,
  opLabels: ['op:model', `op:model:${model.provider}`],
  source: 'src:llm',
  retryOwner: false,
  metadata: { turn: log.turn },
});

export async function runTurn(thread: ThreadContext, tries = 0): Promise<Turn> {
  const { world, log, conversation } = thread;
  if (tries === 0) log.turn += 1;
  const account = createTurnAccount(thread, tries);
  const step = { kind: 'turn' as const, turn: log.turn };
  const ports: Ports = {
    limits: { reserve: () => account.reserve() },
    record: (entry) => account.record(entry),
    checkpoint: (event) =>
      event.name === 'error' && account.next ? undefined : raise(thread, event, step),
  };
  const marks = conversation.marks();
  const done = await perform(
    operation(thread),
    [{ name: 'conversation', role: 'content', value: makeValue(null, { descriptor: marks }) }],
    () => body(thread, account),
    childFrame(world.frame(), { ports }),
  );
  return await after(thread, account, done, tries);
}

async function after(
  thread: ThreadContext,
  account: TurnAccount,
  done: Outcome<Value>,
  tries: number,
): Promise<Turn> {
  const { log } = thread;
  const lost = log.lost();
  if (lost) return { ending: { status: 'interrupted', reason: lost.error.detail.message } };
  if (thread.ending) return { ending: thread.ending };
  const { reply, next } = account;
  if (done.ok && reply) return { reply };
  if (done.ok) {
    // Left out by a hook: the next one is the same turn, so that leaving it out for ever is noticed.
    log.turn -= 1;
    return { again: true };
  }
  if (thread.signal.aborted || next?.do === 'again') return { again: true };
  // Whoever steers is heard before a second try.
  if (next?.do === 'wait' && !(await pause(thread, next.ms))) return { again: true };
  if (next) return await runTurn(thread, tries + 1);
  const { code, detail } = done.error;
  return { ending: { status: 'failed', reason: detail.message, code } };
}

/** Waits; false when somebody said something first or the deadline came. */
async function pause(thread: ThreadContext, ms: number): Promise<boolean> {
  const flight = takeOff(thread, STOPS_STREAM);
  await sleep(ms, undefined, { signal: flight.signal }).catch(() => undefined);
  flight.land();
  return !flight.signal.aborted;
}
