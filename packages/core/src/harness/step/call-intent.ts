// What a call is called before it is made: the key its tool may pass on, and the id of the thread it
// is going to spawn. Both stand in the intent. A call that a process left behind is made again under
// the same names, so a server that knows the key, or a child that is there already, is not done twice.
import { hash } from 'node:crypto';
import { getOwn, plainText } from '../../base/index.ts';
import type { Library } from '../../items/index.ts';
import type { OpenWork, Recorded } from '../../journal/index.ts';
import type { ToolCallBlock } from '../../llm/index.ts';
import { parseThreadId } from '../../store/index.ts';
import { makeThreadId } from '../thread/opening.ts';
import type { CallIntent, HarnessPorts, Thread } from '../thread/thread.ts';
import { type IdentifiedCall, spawnsBy } from './tool-call.ts';

/** What of a call says whether it spawns a thread. */
type Callee = Pick<IdentifiedCall, 'tool' | 'parameters'> & { verb: string };

/**
 * The same when this very step is done again. Nothing of the thread can be read from it: it goes to
 * other people's servers.
 */
export const callKey = ({ place, journal, control }: Thread, { id }: ToolCallBlock): string =>
  control.intents.get(id)?.key ??
  hash('sha256', JSON.stringify([place.id, journal.turn, id]), 'base64url').slice(0, 32);

function nameOf(library: Library, wanted: string): string {
  const found = library.find('directive', wanted);
  const name = found.ok ? found.output.directive?.name : undefined;
  return name ?? (wanted.replace(/[^A-Za-z0-9_-]+/g, '_') || 'thread');
}

/** The thread that a call is going to spawn; one that was left behind keeps its child, once. */
export async function childOf(
  { ports, control }: Thread,
  { id }: ToolCallBlock,
  { verb, tool, parameters }: Callee,
): Promise<string | undefined> {
  const before = control.intents.get(id);
  if (before?.isUnfinished) return before.child;
  const spawn = verb === 'execute' ? spawnsBy(ports.library, tool) : undefined;
  if (!spawn) return undefined;
  const given = plainText(getOwn(parameters, 'thread_id') ?? '');
  if (!spawn.makesId) return parseThreadId(given).ok ? given : undefined;
  const name = nameOf(ports.library, plainText(getOwn(parameters, 'directive_name') ?? ''));
  return await freeId(name, ports);
}

/** Many are named in one second: one that is taken is not promised to a child. */
async function freeId(name: string, ports: HarnessPorts): Promise<string> {
  let id = makeThreadId(name, ports);
  for (let tries = 0; tries < 10 && (await ports.store.thread(id)).ok; tries++) {
    id = makeThreadId(name, ports);
  }
  return id;
}

/** Names a call that is about to be made. */
export function nameCall(
  { control: { intents, atWork } }: Thread,
  { id }: ToolCallBlock,
  key: string,
  child: string | undefined,
  use?: CallIntent['use'],
): void {
  const isUnfinished = intents.get(id)?.isUnfinished ?? false;
  const names = child === undefined ? { key } : { key, child };
  intents.set(id, { ...names, isUnfinished: false, ...(use && { use }) });
  atWork.set(key, { ...names, isUnfinished });
}

export function endCall(
  { control: { intents: begun, atWork } }: Thread,
  { id }: ToolCallBlock,
): void {
  atWork.delete(begun.get(id)?.key ?? '');
  begun.delete(id);
}

/** A child that was noted before its id was named again belongs to another call. */
const isOther = (history: readonly Recorded[], child: string, before: number): boolean =>
  history.some(
    (event) => event.type === 'spawn' && event.seq < before && event.data.thread_id === child,
  );

/** What was begun is remembered, and what its cost already holds is given back: it counts once. */
export function restoreIntents(
  thread: Thread,
  { calls }: Pick<OpenWork, 'calls'>,
  history: readonly Recorded[],
): void {
  const counted = thread.budget.meter.read().tool_calls;
  for (const { id, intent, since } of calls.values()) {
    const { key, child, n = Number.POSITIVE_INFINITY } = intent.data;
    const isOwn = child !== undefined && !isOther(history, child, since);
    if (key !== undefined) {
      const names = { key, isUnfinished: isOwn, ...(isOwn ? { child } : {}) };
      thread.control.intents.set(id, names);
    }
    if (n <= counted) thread.budget.meter.giveBackToolCall();
  }
}
