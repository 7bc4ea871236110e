// The calls of one reply, in order. Neighbours that only read are made at the same time; their results
// are recorded in the order they were asked for.
import type { ToolCallBlock } from '../../llm/index.ts';
import type { Ending } from '../loop.ts';
import { asExecute } from '../thread/permitted-tools.ts';
import type { Thread } from '../thread/thread.ts';
import { beginStep, endStep, isAtRest, performCall } from './step.ts';
import { type IdentifiedCall, identifyCall } from './tool-call.ts';

const MAX_AT_ONCE = 8;

/** Tools that only read, searches and loads. Hooks see one step at a time. */
function mayShare({ ports, hooks: { list } }: Thread, call: ToolCallBlock): boolean {
  if (list.length > 0) return false;
  const known = identifyCall(ports, call);
  // Who reads for the thread takes a turn of it.
  if (!known.ok || known.output.effect !== 'read' || known.output.isReading) return false;
  const { verb, request } = known.output;
  return (
    verb === 'search' || verb === 'load' || (verb === 'execute' && request.item_type === 'tool')
  );
}

/** How many of the calls from `first` on may be made at once. */
function groupSize(thread: Thread, calls: readonly ToolCallBlock[], first: number): number {
  let end = first;
  while (end < calls.length && end - first < MAX_AT_ONCE) {
    const call = calls[end];
    if (!call || !mayShare(thread, call)) break;
    end++;
  }
  return Math.max(1, end - first);
}

async function runOne(thread: Thread, call: ToolCallBlock): Promise<Ending | undefined> {
  const step = await beginStep(thread, call);
  if (!('known' in step)) return step.ending;
  const outcome = await performCall(thread, call, step.known);
  return await endStep(thread, call, step.known, outcome);
}

async function runGroup(
  thread: Thread,
  group: readonly ToolCallBlock[],
): Promise<Ending | undefined> {
  const begun: { call: ToolCallBlock; known: IdentifiedCall }[] = [];
  for (const call of group) {
    const step = await beginStep(thread, call);
    if ('known' in step) begun.push({ call, known: step.known });
    else if (step.ending) return step.ending;
  }
  const outcomes = await Promise.all(
    begun.map(({ call, known }) => performCall(thread, call, known)),
  );
  let ended: Ending | undefined;
  for (const [at, outcome] of outcomes.entries()) {
    const { call, known } = begun[at] as (typeof begun)[number];
    ended = await endStep(thread, call, known, outcome);
    // One of them waits for a person: what the others came to is kept.
    if (ended && !isAtRest(thread)) return ended;
  }
  return ended;
}

function stillOpen({ talk }: Thread, calls: readonly ToolCallBlock[]): readonly ToolCallBlock[] {
  const open = new Set(talk.conversation.pending().map(({ id }) => id));
  return calls.filter(({ id }) => open.has(id));
}

/** `calls` are those that are pending now. */
export async function runSteps(
  thread: Thread,
  asked: readonly ToolCallBlock[],
  between: () => Promise<Ending | undefined>,
): Promise<Ending | undefined> {
  const { tools } = thread.talk;
  const calls = tools ? asked.map((call) => asExecute(tools, call)) : asked;
  for (let at = 0; at < calls.length; ) {
    const size = at + 1 < calls.length ? groupSize(thread, calls, at) : 1;
    const stopped = at === 0 ? undefined : await between();
    if (stopped) return stopped;
    const next = calls.slice(at, at + size);
    // Whoever steers may have left the rest out.
    const group = at === 0 ? next : stillOpen(thread, next);
    const [only] = group;
    const ended =
      only && group.length === 1 ? await runOne(thread, only) : await runGroup(thread, group);
    if (ended) return ended;
    at += size;
  }
  return undefined;
}
