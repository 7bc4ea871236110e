// What happens to children when their parent ends: a normal end waits for them, every other end
// stops them first. A detached child lives on unless the whole tree is ended.
import { isEnded, type ThreadStatus, type ThreadSummary } from '../../store/index.ts';
import { packCost, unpackCost } from '../limits/cost.ts';
import type { Ending } from '../loop.ts';
import { stopThread } from '../thread/interruption.ts';
import type { ThreadResult } from '../thread/ports.ts';
import type { HarnessPorts, Thread } from '../thread/thread.ts';

/** A person or a hook wants the tree gone: then nobody is spared. */
const WHOLE_TREE: ReadonlySet<Ending['status']> = new Set(['aborted', 'terminated', 'killed']);
/** The thread will go on later, and so may its children. */
const GOES_ON: ReadonlySet<Ending['status']> = new Set(['paused', 'waiting', 'needs_input']);

const stopsAs = ({ status }: Ending): Ending['status'] =>
  status === 'aborted' || status === 'killed' || status === 'interrupted' ? status : 'terminated';

async function stopChildren(thread: Thread, ending: Ending): Promise<void> {
  const isSpared = ({ place: { detached } }: Thread): boolean =>
    detached && !WHOLE_TREE.has(ending.status) && ending.status !== 'interrupted';
  const children = thread.ports.threads.live
    .childrenOf(thread.place.id)
    .filter((child) => !isSpared(child.thread));
  const status = stopsAs(ending);
  const reason = `its parent \`${thread.place.id}\` ended ${ending.status}: ${ending.reason}`;
  for (const child of children) stopThread(child.thread, { status, reason });
  await Promise.all(children.map(({ done }) => done));
  if (ending.status !== 'interrupted') await signalOthers(thread, ending);
}

/** Children that another process runs, or none, hear of it through the registry. */
async function signalOthers({ ports, place: { id } }: Thread, ending: Ending): Promise<void> {
  const kind = ending.status === 'killed' ? 'kill' : 'terminate';
  const key = `parent:${id}:${kind}`;
  for (const child of await unfinished(ports, id)) {
    if (child.detached && !WHOLE_TREE.has(ending.status)) continue;
    const payload = { reason: ending.reason };
    await ports.store.signal({ thread: child.id, kind, payload, key, by: id });
  }
}

const OPEN: readonly ThreadStatus[] = [
  ...(['spawning', 'running', 'paused', 'waiting', 'needs_input', 'interrupted'] as const),
  'terminating',
];

/** Children in the registry that have not ended, hooks left out. */
export async function unfinished(
  { store }: Pick<HarnessPorts, 'store'>,
  id: string,
): Promise<ThreadSummary[]> {
  const page = await store.query({ parent: id, status: OPEN, kind: 'thread', limit: 500 });
  return page.ok ? page.output.rows.filter(({ status }) => !isEnded(status)) : [];
}

/** An abort goes up as well: the whole tree ends, this branch first. */
async function abortTree({ ports, place: { id, chain } }: Thread, ending: Ending): Promise<void> {
  const root = chain.at(-1) ?? id;
  if (root === id) return;
  const reason = `thread \`${id}\` aborted the tree: ${ending.reason}`;
  const live = ports.threads.live.get(root);
  if (live)
    stopThread(live.thread, {
      status: 'aborted',
      reason,
      ...(ending.code && { code: ending.code }),
    });
  else {
    const [kind, key] = ['terminate', `abort:${id}`];
    await ports.store.signal({ thread: root, kind, payload: { reason }, key, by: id });
  }
}

/** The child's cost is its parent's too, and its end is in the parent's journal. */
export function tellParent(thread: Thread, result: ThreadResult): void {
  const {
    ports,
    place: { parent, kind },
  } = thread;
  if (!isEnded(result.status)) return;
  const above = parent === undefined ? undefined : ports.threads.live.get(parent)?.thread;
  if (!above || kind === 'hook') return;
  countChild(above, result);
}

export function countChild(
  { budget: { meter }, journal }: Thread,
  result: Pick<ThreadResult, 'thread_id' | 'status' | 'reason' | 'cost'>,
): void {
  const cost = unpackCost(result.cost);
  if (cost.ok) meter.countChild(cost.output);
  const { thread_id, status, reason } = result;
  journal.note(
    { type: 'child_end', data: { thread_id, status, reason, cost: result.cost } },
    { cost: packCost(meter.read()) },
  );
}

/**
 * Called once the loop is over and before the end is recorded; answers with the ending that counts.
 * `wait` resolves when every child of a normally ended parent has ended, or with a new ending.
 */
export async function endFamily(
  thread: Thread,
  ending: Ending,
  wait: (thread: Thread) => Promise<Ending | undefined>,
): Promise<Ending> {
  if (GOES_ON.has(ending.status)) return ending;
  const isOwnAbort =
    ending.status === 'aborted' && thread.place.kind !== 'hook' && !thread.control.stopped;
  let final = ending;
  if (ending.status === 'completed') {
    const instead = await wait(thread);
    if (!instead) return ending;
    final = { ...instead, ...(ending.text === undefined ? {} : { text: ending.text }) };
    if (GOES_ON.has(final.status)) return final;
  }
  await stopChildren(thread, final);
  if (final.status === 'aborted')
    thread.journal.note({ type: 'snapshot', data: { reason: final.reason } });
  if (isOwnAbort) await abortTree(thread, final);
  return final;
}
