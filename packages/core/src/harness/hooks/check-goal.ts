// Checks the goal of a run where the run would complete: the criteria of the directive, then its hooks. If the goal is
// not reached, the model gets the reason and continues. The journal alone has the state, so a resumed run counts each
// round once.
import { type Failure, fail, type JsonObject } from '../../base/index.ts';
import { compileExpression } from '../../expr/index.ts';
import {
  type Descriptor,
  descriptorOfFault,
  EMPTY,
  markFailure,
  mergeAll,
} from '../../flow/index.ts';
import {
  type DataOf,
  eventsInForce,
  ownEvents,
  type Recorded,
  readJournal,
} from '../../journal/index.ts';
import type { Ending } from '../loop.ts';
import { tell } from '../thread/talk.ts';
import type { Thread } from '../thread/thread.ts';
import { mayAnswer, raiseEnd, raiseError } from './raise-checkpoint.ts';

const DEFAULT_ROUNDS = 20;
/** Number of equal reasons in a row, without a successful write between them, that shows no progress. */
const MAX_EQUAL = 3;

/** Number of rounds without the goal, the last reason, and the number of equal reasons in a row. */
interface Rounds {
  count: number;
  reason?: string;
  equal: number;
}

const nextRound = ({ count, reason: last, equal }: Rounds, reason: string): Rounds => ({
  count: count + 1,
  reason,
  equal: reason === last && equal < MAX_EQUAL ? equal + 1 : 1,
});

/** Counts rounds without the goal. A person who resumes an ended thread starts the counts again. */
export function roundsIn(events: readonly Recorded[]): Rounds {
  const writes = new Set<string>();
  let rounds: Rounds = { count: 0, equal: 0 };
  for (const { type, data } of ownEvents(events)) {
    if (type === 'signal' && data.after !== undefined) rounds = { count: 0, equal: 0 };
    if (type === 'tool_call' && data.effect === 'write') writes.add(data.call_id);
    if (type === 'tool_result' && !data.is_error && writes.has(data.call_id)) rounds.equal = 0;
    if (type === 'criterion' && data.reason !== undefined) rounds = nextRound(rounds, data.reason);
  }
  return rounds;
}

/** Evaluates the criteria. Only the first one that does not hold has a reason. */
function evaluate({ place, budget }: Pick<Thread, 'place' | 'budget'>, ending: JsonObject) {
  const { name, version, goal } = place.directive;
  const directive = { name, version, inputs: place.inputs };
  const context = { ...ending, cost: budget.meter.view(), directive };
  let unmet: string | undefined;
  const results = (goal?.criteria ?? []).map(({ text, holds }, index) => {
    const compiled = compileExpression(holds);
    const tested = compiled.ok ? compiled.output.test(context) : compiled;
    if (tested.ok && tested.output) return { held: true, index };
    if (unmet !== undefined) return { held: false, index };
    unmet = tested.ok ? text : `${text} (${tested.error.detail.message})`;
    return { held: false, index, reason: unmet };
  });
  return { results, unmet };
}

/** Returns a failed ending. Its reason can quote what a hook has read, so it has the marks of the hook too. */
const failedWith = (
  { talk }: Pick<Thread, 'talk'>,
  ending: Ending,
  { error: { code, detail } }: Failure,
  from: Descriptor = EMPTY,
): Ending => ({
  ...ending,
  status: 'failed',
  reason: detail.message,
  code,
  marks: mergeAll([ending.marks ?? EMPTY, talk.conversation.allMarks(), from]),
});

/**
 * Returns the ending of a run that would complete, or `undefined` if the model must continue. `isOnce`: no model can
 * continue, so the run fails with `criteria_unmet` instead.
 */
export async function checkGoal(
  thread: Thread,
  ending: Ending,
  isOnce: boolean,
): Promise<Ending | undefined> {
  const { ports, place, journal, control, hooks } = thread;
  const { criteria = [], rounds: most = DEFAULT_ROUNDS } = place.directive.goal ?? {};
  const isPlain = criteria.length === 0 && !mayAnswer(hooks, 'end');
  if (ending.status !== 'completed' || isPlain) return ending;
  await journal.flush();
  const types = ['criterion', 'tool_call', 'tool_result', 'signal'] as const;
  const read = await readJournal(ports.store, place.id, types);
  if (!read.ok) return failedWith(thread, ending, read);
  const past = roundsIn(eventsInForce(read.output));
  const round = past.count + 1;
  const end = { text: ending.text ?? '', outputs: ending.outputs ?? {} };
  const { results, unmet } = evaluate(thread, end);
  // A hook that ends or parks the run sets another ending.
  if (control.ending === ending) control.ending = undefined;
  const demand =
    unmet === undefined ? await raiseEnd(thread, { name: 'end', ...end, round }) : undefined;
  if (control.ending) return control.ending;
  const reason = unmet ?? demand?.detail.message;
  const from = (demand && descriptorOfFault(demand)) ?? EMPTY;
  const notes: Omit<DataOf<'criterion'>, 'round'>[] = results;
  if (demand) notes.push({ held: false, reason: demand.detail.message });
  for (const data of notes) journal.note({ type: 'criterion', data: { ...data, round } });
  if (reason === undefined) return ending;
  if (isOnce || round >= most) {
    const after = isOnce ? '' : ` after ${round} rounds`;
    const failure = fail('criteria_unmet', `not done${after}: ${reason}`);
    return failedWith(thread, ending, failure, from);
  }
  tell(thread, `[harness] not done: ${reason}`, undefined, from);
  if (nextRound(past, reason).equal < MAX_EQUAL) return undefined;
  const message = `${MAX_EQUAL} rounds in a row ended for the same reason: ${reason}`;
  await raiseError(thread, markFailure(fail('stuck', message), from), `end ${round}`);
  return control.ending;
}
