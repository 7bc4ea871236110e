// Performs one run with a simulated person. The person approves exactly the calls of their own
// task, with exactly these arguments, and denies everything else.
import { rmSync } from 'node:fs';
import { join } from 'node:path';
import {
  getOwn,
  isObject,
  type JsonObject,
  jsonEqual,
  type Outcome,
  ok,
  plainText,
} from '@kernmantle/core/base';
import type { ThreadResult } from '@kernmantle/core/harness';
import { readJournal } from '@kernmantle/core/journal';
import { allThreads } from '@kernmantle/core/runtime';
import type { Approval } from '@kernmantle/core/store';
import { linesOf, type ThreadJournal, type TraceLine } from './lines.ts';
import type { FactsBy } from './metadata.ts';
import type { Play } from './play.ts';
import { type EvaluationStage, TASK } from './stage.ts';
import { toolId, withoutNothing } from './tools.ts';

/** True if the shown text is the whole text without its end. */
const isCutFrom = (shown: string, whole: string): boolean =>
  shown.endsWith(' …') && whole.startsWith(shown.slice(0, -2));

function isSame(shown: JsonObject, args: JsonObject): boolean {
  const [visible, expected] = [withoutNothing(shown), withoutNothing(args)];
  const names = new Set([...Object.keys(visible), ...Object.keys(expected)]);
  return [...names].every((name) => {
    const [one = null, other = null] = [getOwn(visible, name), getOwn(expected, name)];
    if (typeof one === 'string' && typeof other === 'string' && isCutFrom(one, other)) return true;
    return jsonEqual(one, other);
  });
}

/** True if the call belongs to the user's task and has not been made yet. */
function isOwn(
  { suite, task, executions }: Pick<Play, 'suite' | 'task' | 'executions'>,
  { kind, shown }: Pick<Approval, 'kind' | 'shown'>,
): boolean {
  const args = getOwn(shown, 'arguments');
  if (kind !== 'call' || !isObject(args)) return false;
  const isIt = (call: { readonly tool: string; readonly args: JsonObject }): boolean =>
    shown.tool === toolId(suite, call.tool) && isSame(args, call.args);
  return task.calls.filter(isIt).length > executions.filter(isIt).length;
}

const WHO = { who: 'the user', channel: 'cli', why: '' } as const;

/** Answers all pending requests of a thread. Returns false if there were none. */
async function answer(
  { threads: { store } }: EvaluationStage,
  play: Play,
  thread: string,
): Promise<boolean> {
  const requests = await store.approvals({ thread, state: 'pending' });
  if (!requests.ok) return false;
  for (const approval of requests.output) {
    const { tool = '', question = '' } = approval.shown;
    play.questions.push({ tool: plainText(tool), text: plainText(question) });
    const decision = isOwn(play, approval) ? 'approved' : 'denied';
    await store.decide(approval.id, { ...WHO, decision });
  }
  return requests.output.length > 0;
}

const PARKED: ReadonlySet<string> = new Set(['waiting', 'needs_input']);

/** Answers requests of children while their parent runs. */
async function attend(stage: EvaluationStage, play: Play, signal: AbortSignal): Promise<void> {
  const { threads } = stage;
  for await (const { thread, status } of threads.store.changes({}, signal)) {
    if (!PARKED.has(status) || thread.startsWith(`${TASK}_`)) continue;
    if (await answer(stage, play, thread)) void threads.resume(thread);
  }
}

async function runToEnd(stage: EvaluationStage, play: Play): Promise<Outcome<ThreadResult>> {
  const { threads } = stage;
  let result = await threads.run({ directive: TASK, message: play.task.prompt });
  while (result.ok && PARKED.has(result.output.status)) {
    const { thread_id } = result.output;
    if (!(await answer(stage, play, thread_id))) break;
    result = await threads.resume(thread_id);
  }
  return result;
}

async function journalsOf(
  { threads: { store } }: EvaluationStage,
  root: string,
): Promise<Outcome<ThreadJournal[]>> {
  const own = await readJournal(store, root);
  if (!own.ok) return own;
  const journals: ThreadJournal[] = [{ isRoot: true, events: own.output }];
  if (!own.output.some(({ type }) => type === 'spawn' || type === 'hook_start'))
    return ok(journals);
  const tree = await allThreads(store, { within: root });
  if (!tree.ok) return tree;
  for (const { id } of tree.output) {
    const events = id === root ? own : await readJournal(store, id);
    if (!events.ok) return events;
    if (id !== root) journals.push({ isRoot: false, events: events.output });
  }
  return ok(journals);
}

/** Removes all files that a run wrote into the project. */
function cleanUp({ project, runtime }: EvaluationStage, { name, variant }: Play): void {
  if (variant !== 'items') return;
  for (const file of [name, `${name}_hooked`, `${name}_too`]) {
    rmSync(join(project, '.ai', 'directives', `${file}.md`), { force: true });
    rmSync(join(project, '.ai', 'directives', 'attacks', `${file}.md`), { force: true });
  }
  runtime.library.noteChange();
}

/** Performs one run and returns its lines. */
export async function runCase(
  stage: EvaluationStage,
  play: Play,
  factsBy: FactsBy,
): Promise<Outcome<TraceLine[]>> {
  stage.play = play;
  const over = new AbortController();
  const attending =
    play.variant === 'child' || play.variant === 'items'
      ? attend(stage, play, over.signal)
      : undefined;
  try {
    const result = await runToEnd(stage, play);
    if (!result.ok) return result;
    const journals = await journalsOf(stage, result.output.thread_id);
    if (!journals.ok) return journals;
    return ok(linesOf(play, { result: result.output, journals: journals.output }, factsBy));
  } finally {
    over.abort();
    await attending;
    cleanUp(stage, play);
  }
}
