// Reads the calls of a thread in the form that the evaluation counts.
import { getOwn, isObject, type Json, type JsonObject } from '@kernmantle/core/base';
import { madeCalls, type Recorded } from '@kernmantle/core/journal';

const inputOf = (data: Json): JsonObject => {
  const parameters = getOwn(data, 'parameters');
  return isObject(parameters) ? parameters : isObject(data) ? data : {};
};

const ANSWERS = {
  used: 'approved',
  pending: 'pending',
  denied: 'denied',
  expired: 'denied',
} as const;

/** Returns the calls of one thread that have an intent. */
export const callsIn = (events: readonly Recorded[]) =>
  madeCalls(events).map(({ call: { id, approval }, intent, result }) => {
    const { tool, key = '', arguments: input } = intent.data;
    const about = { ...intent.data.about, ...result?.data.about };
    const state = approval && ANSWERS[approval.state];
    return { id, tool, key, given: inputOf(input), about, asked: state, result: result?.data };
  });

export type CallMade = ReturnType<typeof callsIn>[number];
