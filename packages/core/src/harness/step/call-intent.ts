// Names a call before it is made: with the key that its tool can pass on, and the id of the thread that it will
// spawn. The intent records both. A call of a lost process is made again with the same names, so that a server
// with that key, or an existing child, does not repeat the work.
import { hash } from 'node:crypto';
import { getOwn, plainText } from '../../base/index.ts';
import type { Library } from '../../items/index.ts';
import type { OpenWork, Recorded } from '../../journal/index.ts';
import type { ToolCallBlock } from '../../llm/index.ts';
import { parseThreadId } from '../../store/index.ts';
import { makeThreadId } from '../thread/opening.ts';
import type { CallIntent, CallRecord, Control, HarnessPorts, Thread } from '../thread/thread.ts';
import { type IdentifiedCall, spawnsBy } from './tool-call.ts';

type Callee = Pick<IdentifiedCall, 'tool' | 'parameters'> & { verb: string };

/**
 * Returns the key of a call, the same for a repeated step. Servers outside receive the key, so it reveals nothing
 * about the call.
 */
export const callKey = ({ place, journal, control }: CallRecord, { id }: ToolCallBlock): string =>
  control.intents.get(id)?.key ??
  hash('sha256', JSON.stringify([place.id, journal.turn, id]), 'base64url').slice(0, 32);

function nameOf(library: Library, directive: string): string {
  const found = library.find('directive', directive);
  const name = found.ok ? found.output.directive?.name : undefined;
  return name ?? (directive.replace(/[^A-Za-z0-9_-]+/g, '_') || 'thread');
}

/** Returns the id of the thread that a call will spawn. A repeated call keeps its child. */
export async function childOf(
  ports: HarnessPorts,
  before: CallIntent | undefined,
  { verb, tool, parameters }: Callee,
): Promise<string | undefined> {
  if (before?.isUnfinished) return before.child;
  const spawn = verb === 'execute' ? spawnsBy(ports.library, tool) : undefined;
  if (!spawn) return undefined;
  const id = plainText(getOwn(parameters, 'thread_id') ?? '');
  if (!spawn.makesId) return parseThreadId(id).ok ? id : undefined;
  const name = nameOf(ports.library, plainText(getOwn(parameters, 'directive_name') ?? ''));
  return await freeId(name, ports);
}

/** Returns an id that no thread in the store has. */
async function freeId(name: string, ports: HarnessPorts): Promise<string> {
  let id = makeThreadId(name, ports);
  for (let tries = 0; tries < 10 && (await ports.store.thread(id)).ok; tries++) {
    id = makeThreadId(name, ports);
  }
  return id;
}

/** Adds the intent of a call that is about to be made. */
export function nameCall(
  { intents, atWork }: Control,
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
  { control: { intents, atWork } }: Pick<Thread, 'control'>,
  { id }: ToolCallBlock,
): void {
  atWork.delete(intents.get(id)?.key ?? '');
  intents.delete(id);
}

/** True if the child was recorded before this id was reserved, so that it belongs to another call. */
const isOther = (history: readonly Recorded[], child: string, before: number): boolean =>
  history.some(
    (event) => event.type === 'spawn' && event.seq < before && event.data.thread_id === child,
  );

/** Restores intents of open calls. Calls that the recorded cost has are uncounted, to be counted again. */
export function restoreIntents(
  thread: Pick<Thread, 'budget' | 'control'>,
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
