// Reading a destination's fields: a wrong type is the author's mistake and is named as such.
import { fail, getOwn, type JsonObject, type Outcome, ok } from '../../base/index.ts';
import type { SinkFactory } from '../sink.ts';

/** A whole number of at least `min`, or the default when the field is absent. */
export function countField(
  config: JsonObject,
  name: string,
  preset: number,
  min = 1,
): Outcome<number> {
  const value = getOwn(config, name) ?? preset;
  return typeof value === 'number' && Number.isSafeInteger(value) && value >= min
    ? ok(value)
    : fail('config_invalid', `\`${name}\` must be a whole number of at least ${min}`);
}

export function choiceField<Name extends string>(
  config: JsonObject,
  name: string,
  choices: readonly [Name, ...Name[]],
): Outcome<Name> {
  const value = getOwn(config, name) ?? choices[0];
  const found = choices.find((choice) => choice === value);
  return found === undefined
    ? fail('config_invalid', `\`${name}\` must be one of ${choices.join(', ')}`)
    : ok(found);
}

// Takes everything and keeps nothing: for calls made for their effect, and for measuring.

export const createNullSink: SinkFactory = () => {
  let delivered = 0;
  return ok({
    type: 'null_sink',
    write() {
      delivered++;
    },
    writeAll(events) {
      delivered += events.length;
    },
    close: async () => ({ type: 'null_sink', delivered, dropped: 0 }),
  });
};
