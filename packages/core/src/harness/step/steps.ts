// Makes the calls of one reply in order. Neighbouring calls that only read are made at the same time. Their
// results are recorded in the order of the calls.
import type { ToolCallBlock } from '../../llm/index.ts';
import type { Ending } from '../loop.ts';
import { asExecute } from '../thread/permitted-tools.ts';
import type { HarnessPorts, Talk, Thread } from '../thread/thread.ts';
import { beginStep, type CallGroup, endStep, isParked, performCall } from './step.ts';
import { type IdentifiedCall, identifyCall } from './tool-call.ts';

const MAX_AT_ONCE = 8;

/** True for searches, loads and tools that only read. */
function mayRunInParallel(ports: HarnessPorts, call: ToolCallBlock): boolean {
  const callee = identifyCall(ports, call);
  // A reader uses a turn of the thread.
  if (!callee.ok || callee.output.effect !== 'read' || callee.output.isReading) return false;
  const { verb, request } = callee.output;
  return (
    verb === 'search' || verb === 'load' || (verb === 'execute' && request.item_type === 'tool')
  );
}

/**
 * Returns how many calls from `first` on are made at the same time. A replay reads the number from the journal,
 * because the library can have changed.
 */
function groupSize(
  { ports, place, hooks }: Pick<Thread, 'ports' | 'place' | 'hooks'>,
  calls: readonly ToolCallBlock[],
  first: number,
): number {
  const recorded = ports.replay?.group(place.id, calls[first]?.id ?? '');
  if (recorded !== undefined) return recorded;
  // Hooks get one step at a time.
  if (hooks.list.length > 0) return 1;
  let end = first;
  while (end < calls.length && end - first < MAX_AT_ONCE) {
    const call = calls[end];
    if (!call || !mayRunInParallel(ports, call)) break;
    end++;
  }
  return Math.max(1, end - first);
}

async function runOne(
  thread: Thread,
  call: ToolCallBlock,
  size: number | undefined,
): Promise<Ending | undefined> {
  const step = await beginStep(thread, call);
  if (!('known' in step)) return step.ending;
  const outcome = await performCall(thread, call, step.known, size === undefined ? {} : { size });
  return await endStep(thread, call, step.known, outcome);
}

type StartedCall = { call: ToolCallBlock; known: IdentifiedCall };

/**
 * Makes the calls at the same time and records their events in the order of the calls. Each call begins when the
 * intent of the call before it is recorded or was not needed. A call records all other events after every intent
 * is recorded and the calls before it are done.
 */
async function performAtOnce(thread: Thread, started: readonly StartedCall[], size: number) {
  const { promise: allBegun, resolve: endBegin } = Promise.withResolvers<void>();
  const running: ReturnType<typeof performCall>[] = [];
  for (const { call, known } of started) {
    const before = Promise.all([allBegun, ...running]);
    const { promise: hasIntent, resolve: recorded } = Promise.withResolvers<void>();
    const group: CallGroup = {
      size,
      recorded,
      async inTurn() {
        recorded();
        await before;
        await thread.journal.catchUp();
      },
    };
    await thread.journal.catchUp();
    const outcome = performCall(thread, call, known, group);
    running.push(outcome);
    await Promise.race([hasIntent, outcome]);
  }
  endBegin();
  return await Promise.all(running);
}

async function runGroup(
  thread: Thread,
  group: readonly ToolCallBlock[],
  size: number,
): Promise<Ending | undefined> {
  const started: StartedCall[] = [];
  for (const call of group) {
    const step = await beginStep(thread, call);
    if ('known' in step) started.push({ call, known: step.known });
    else if (step.ending) return step.ending;
  }
  const outcomes = await performAtOnce(thread, started, size);
  let ended: Ending | undefined;
  for (const [at, outcome] of outcomes.entries()) {
    const { call, known } = started[at] as StartedCall;
    await thread.journal.catchUp();
    ended = await endStep(thread, call, known, outcome);
    // The call waits for a person. The results of the other calls are kept.
    if (ended && !isParked(thread)) return ended;
  }
  return ended;
}

function stillOpen(
  { conversation }: Talk,
  calls: readonly ToolCallBlock[],
): readonly ToolCallBlock[] {
  const open = new Set(conversation.pending().map(({ id }) => id));
  return calls.filter(({ id }) => open.has(id));
}

export async function runSteps(
  thread: Thread,
  requested: readonly ToolCallBlock[],
  between: () => Promise<Ending | undefined>,
): Promise<Ending | undefined> {
  const { tools } = thread.talk;
  const calls = tools ? requested.map((call) => asExecute(tools, call)) : requested;
  for (let at = 0; at < calls.length; ) {
    const shared = at + 1 < calls.length ? groupSize(thread, calls, at) : undefined;
    const size = shared ?? 1;
    const stopped = at === 0 ? undefined : await between();
    if (stopped) return stopped;
    const next = calls.slice(at, at + size);
    // A signal can have dropped the rest of the calls.
    const group = at === 0 ? next : stillOpen(thread.talk, next);
    const [only] = group;
    const ended =
      only && group.length === 1
        ? await runOne(thread, only, shared)
        : await runGroup(thread, group, size);
    if (ended) return ended;
    at += size;
  }
  return undefined;
}
