// The calls of one reply, in order. Neighbours that only read are made at the same time; their results
// are recorded in the order they were asked for.
import type { ToolCallBlock } from '../../llm/index.ts';
import type { Ending } from '../loop.ts';
import type { Thread } from '../thread/thread.ts';
import { beginStep, endStep, performCall } from './step.ts';
import { type IdentifiedCall, identifyCall } from './tool-call.ts';

const MAX_AT_ONCE = 8;

/** Tools that only read, searches and loads. Hooks see one step at a time. */
function mayShare({ ports, hooks: { list: hooks } }: Thread, call: ToolCallBlock): boolean {
  if (hooks.length > 0) return false;
  const known = identifyCall(ports, call);
  if (!known.ok || known.output.effect !== 'read') return false;
  const { verb, request } = known.output;
  return (
    verb === 'search' || verb === 'load' || (verb === 'execute' && request.item_type === 'tool')
  );
}

/** Neighbours that may be made at once, everything else by itself. */
function groupsOf(thread: Thread, calls: readonly ToolCallBlock[]): ToolCallBlock[][] {
  const groups: ToolCallBlock[][] = [];
  let isShared = false;
  for (const call of calls) {
    const shares = mayShare(thread, call);
    const last = groups.at(-1);
    if (shares && isShared && last && last.length < MAX_AT_ONCE) last.push(call);
    else groups.push([call]);
    isShared = shares;
  }
  return groups;
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
    begun.map(async ({ call, known }) => ({
      call,
      known,
      outcome: await performCall(thread, call, known),
    })),
  );
  for (const { call, known, outcome } of outcomes) {
    const ended = await endStep(thread, call, known, outcome);
    if (ended) return ended;
  }
  return undefined;
}

export async function runSteps(
  thread: Thread,
  calls: readonly ToolCallBlock[],
  between: () => Promise<Ending | undefined>,
): Promise<Ending | undefined> {
  for (const [index, group] of groupsOf(thread, calls).entries()) {
    const stopped = index === 0 ? undefined : await between();
    if (stopped) return stopped;
    // Whoever steers may have left the rest out.
    const open = new Set(thread.talk.conversation.pending().map(({ id }) => id));
    const ended = await runGroup(
      thread,
      group.filter(({ id }) => open.has(id)),
    );
    if (ended) return ended;
  }
  return undefined;
}
