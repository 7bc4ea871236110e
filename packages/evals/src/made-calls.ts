// The calls that a thread made, as the evaluation counts them.
import { getOwn, isObject, type Json, type JsonObject } from '@kernmantle/core/base';
import {
  calls,
  eventAt,
  listCalls,
  project,
  type Recorded,
  type RecordedOf,
} from '@kernmantle/core/journal';

/** One call of a thread, as its journal has it. */
export interface CallMade {
  readonly id: string;
  readonly tool: string;
  readonly key: string;
  readonly given: JsonObject;
  readonly about: JsonObject;
  readonly asked: 'approved' | 'denied' | 'pending' | undefined;
  readonly result: RecordedOf<'tool_result'>['data'] | undefined;
}

const givenIn = (data: Json): JsonObject => {
  const parameters = getOwn(data, 'parameters');
  return isObject(parameters) ? parameters : isObject(data) ? data : {};
};

const ANSWERS = {
  used: 'approved',
  pending: 'pending',
  denied: 'denied',
  expired: 'denied',
} as const;

/** The calls of one thread that have an intent, in the order of their first intents. */
export function callsIn(events: readonly Recorded[]): CallMade[] {
  const made = listCalls(project(calls, events)).toSorted(
    (a, b) => (a.intents[0] ?? 0) - (b.intents[0] ?? 0),
  );
  return made.flatMap(({ id, intents, approval, result: end }) => {
    const [intent, last] = [eventAt(events, intents.at(-1)), eventAt(events, end?.seq)];
    if (intent?.type !== 'tool_call') return [];
    const result = last?.type === 'tool_result' ? last.data : undefined;
    const { tool, key = '', arguments: given } = intent.data;
    const about = { ...intent.data.about, ...result?.about };
    const asked = approval && ANSWERS[approval.state];
    return [{ id, tool, key, given: givenIn(given), about, asked, result }];
  });
}
