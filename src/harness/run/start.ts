// From a prepared directive to its result: the row and its lease, the injected beginning, the loop,
// the end.
import { type Outcome, ok } from '../../base/index.ts';
import type { ThreadRow } from '../../store/index.ts';
import { MAX_RETRIES } from '../hooks/action.ts';
import { packLimits } from '../limits/effective-limits.ts';
import { budgetOf } from '../thread/budget.ts';
import { encode } from '../thread/journal-codec.ts';
import type { JournalEvent } from '../thread/journal-event.ts';
import { openingEvents, withFreshId } from '../thread/opening.ts';
import type { ThreadResult } from '../thread/ports.ts';
import { addToConversation } from '../thread/talk.ts';
import { type HarnessPorts, type Prepared } from '../thread/thread.ts';
import { createThread } from './create.ts';
import { drive, LEASE_MS } from './drive.ts';
import { prepareThread, type RunRequest } from './prepare.ts';
import { createHookRunner, type Place, type RunPrepared, reserveForHooks } from './run-hook.ts';

/** A thread that exists; `done` never rejects. */
export interface Started {
  id: string;
  created: number;
  done: Promise<ThreadResult>;
}

async function createRow(
  ports: HarnessPorts,
  { item, directive, limits, inputs }: Prepared,
  place: Place,
  events: readonly JournalEvent[],
): Promise<Outcome<ThreadRow>> {
  const create = (id: string): Outcome<ThreadRow> =>
    ports.store.createThread(
      {
        id,
        directive: item.id,
        version: directive.version,
        runner: place.runner ?? 'safety',
        project: ports.project,
        limits: packLimits(limits),
        budget: budgetOf(limits),
        inputs,
        ...(place.parent ? { parent: place.parent.place.id } : {}),
        ...(place.kind ? { kind: place.kind } : {}),
        ...(place.detached ? { detached: true } : {}),
      },
      {
        events: events.map((event) => encode(event, 0)),
        lease: { owner: ports.threads.owner, ttlMs: LEASE_MS },
      },
    );
  return place.id === undefined
    ? await withFreshId(directive.name, ports, create)
    : create(place.id);
}

/** Makes the row and lets the thread run; whoever wants its result awaits `done`. */
export async function startPrepared(
  ports: HarnessPorts,
  prepared: Prepared,
  place: Place,
  signal: AbortSignal,
  message: string,
): Promise<Outcome<Started>> {
  const { directive, limits, inputs, model } = prepared;
  const opening = await openingEvents(ports, prepared, message, place.marks);
  if (!opening.ok) return opening;
  const first: JournalEvent = {
    type: 'thread_start',
    data: {
      directive: directive.name,
      version: directive.version,
      inputs,
      model: model.model,
      message,
      limits: packLimits(limits),
      ...(prepared.stream === true && { stream: true }),
    },
  };
  const since = ports.threads.live.leases.now();
  const events = [first, ...opening.output];
  const row = await createRow(ports, prepared, place, events);
  if (!row.ok) return row;
  ports.watch.transcript(row.output.id)(
    events.map((event) => ({ ...event, turn: 0 })),
    1,
  );
  const made = createThread(ports, {
    prepared,
    row: row.output,
    epoch: row.output.epoch,
    signal,
    history: [],
    parent: place.parent,
    drawFrom: place.drawFrom,
    runHook,
  });
  if (!made.ok) return made;
  const thread = made.output;
  reserveForHooks(thread, row.output.epoch);
  thread.talk.opening.push(...opening.output);
  for (const event of opening.output) addToConversation(thread, event);
  const started: JournalEvent = {
    type: 'signal',
    data: { kind: 'start', by: ports.threads.owner },
  };
  thread.journal.note(started, { status: 'running' });
  const { id, created, epoch } = row.output;
  const born = { id, created };
  return ok({ ...born, done: drive(thread, { epoch, since }) });
}

export const runPrepared: RunPrepared = async (...run) => {
  const started = await startPrepared(...run);
  return started.ok ? ok(await started.output.done) : started;
};

export const runHook = createHookRunner(runPrepared);

/** Runs a directive as a thread, to its end or until it pauses. */
export async function runDirective(
  ports: HarnessPorts,
  request: RunRequest,
  signal: AbortSignal = new AbortController().signal,
): Promise<Outcome<ThreadResult>> {
  const prepared = await prepareThread(ports, request);
  if (!prepared.ok) return prepared;
  let ran = await runPrepared(ports, prepared.output, {}, signal, request.message ?? '');
  for (let tries = 0; ran.ok && tries < MAX_RETRIES && isChanged(ports, ran.output); tries++) {
    ran = await ports.threads.resume(ran.output.thread_id);
  }
  return ran;
}

/** The directive was changed and nobody needs to look at it: the run goes on with the new one. */
const isChanged = ({ store }: HarnessPorts, { thread_id, status }: ThreadResult): boolean => {
  if (status !== 'waiting') return false;
  const open = store.approvals.list({ thread: thread_id, state: 'pending' });
  return open.ok && open.output.length === 0;
};
