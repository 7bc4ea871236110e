// Starts a comparison: a root thread that asks another model for the turns of a recorded thread. It is reserved and
// charged like any thread. Secrets stay sealed: the other model gets their references.
import { fail, type Outcome } from '../../base/index.ts';
import type { DirectiveLimits } from '../../items/index.ts';
import { changedInputs, eventsInForce, readJournal, startOf } from '../../journal/index.ts';
import { hasConversation, noConversation } from '../run/fork.ts';
import { prepareThread, type StartedBy } from '../run/prepare.ts';
import { COMPARE } from '../run/runner.ts';
import { runPrepared } from '../run/start.ts';
import type { ThreadResult } from '../thread/ports.ts';
import type { HarnessPorts } from '../thread/thread.ts';

export interface CompareOptions {
  /** Tier or id of the model that is asked. */
  model: string;
  limits: DirectiveLimits;
  /** First and last turn. Absent: all turns. */
  from?: number;
  to?: number;
  by: StartedBy;
}

export async function compareModel(
  ports: HarnessPorts,
  id: string,
  { model, limits, from = 1, to = Number.POSITIVE_INFINITY, by }: CompareOptions,
  signal: AbortSignal = new AbortController().signal,
): Promise<Outcome<ThreadResult>> {
  const row = await ports.store.thread(id);
  if (!row.ok) return row;
  const history = await readJournal(ports.store, id);
  if (!history.ok) return history;
  const start = startOf(history.output);
  if (!hasConversation(start)) return noConversation(id);
  const events = eventsInForce(history.output);
  const hasTurns = events.some(
    ({ type, turn }) => type === 'turn_start' && turn >= from && turn <= to,
  );
  if (!hasTurns) {
    return fail('invalid_input', `thread \`${id}\` has no turns from ${from} to ${to}`, {
      thread: id,
    });
  }
  const inputs = changedInputs(events) ?? start?.inputs ?? {};
  const request = { directive: row.output.directive, inputs, model, limits, by };
  const prepared = await prepareThread(ports, request);
  if (!prepared.ok) return prepared;
  const { plan: _, ...rest } = prepared.output;
  const comparison = { history: events, from, to };
  const message = `compare the turns of ${id}`;
  const place = { runner: COMPARE, by };
  return await runPrepared(ports, { ...rest, hooks: [], comparison }, place, signal, message);
}
