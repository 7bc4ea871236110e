// The calls of a task as steps of a model that copies nothing: what stands in a text is read out of it by
// a step of its own, and each step knows which parts of earlier answers it is given.
import { isObject, type Json, type JsonObject, textAt } from '@kernmantle/core/base';
import type { UserTask } from './cases.ts';
import { asAnswer, type Given, type GivenArguments, type Path, readings } from './sources.ts';

export interface ReadingStep {
  readonly kind: 'reading';
  readonly id: string;
  /** What the reader is asked for: also how it is told apart. */
  readonly what: string;
  readonly call: number;
  readonly path: Path;
  readonly schema: JsonObject;
  readonly value: Json;
  readonly parameter: string;
}

interface UserStep {
  readonly kind: 'call';
  readonly id: string;
  readonly call: number;
  readonly tool: string;
  readonly given: GivenArguments;
  /** The steps that read for it, in the order in which its arguments name them. */
  readonly reads: readonly string[];
}

export type TaskStep = ReadingStep | UserStep;

const DATE = /^\d{4}-\d\d-\d\d$/;

/** As narrow as it can be said: what is a number or a date is no text. */
function schemaOf(value: Json): JsonObject {
  if (typeof value === 'number') return { type: Number.isInteger(value) ? 'integer' : 'number' };
  return typeof value === 'string' && DATE.test(value)
    ? { type: 'string', format: 'date' }
    : { type: 'string' };
}

const callId = (call: number): string => `u${call}`;

/** What is to be read for one argument, first to last. */
const readingsFor = (given: GivenArguments, call: number): ReadingStep[] => {
  const all = Object.entries(given).flatMap(([parameter, argument]) =>
    [...readings(argument)].map((reading) => ({ ...reading, parameter })),
  );
  return all.map(({ call: from, path, value, parameter }, at) => ({
    kind: 'reading',
    id: `x${call}_${at}`,
    what: `${parameter} for step ${call + 1} (value ${at + 1})`,
    call: from,
    path,
    schema: schemaOf(value),
    value,
    parameter,
  }));
};

/** Everything that is done for a task, in order. */
export function stepsOf({ calls }: UserTask, given: readonly GivenArguments[]): TaskStep[] {
  return calls.flatMap(({ tool }, call): TaskStep[] => {
    const own = given[call] ?? {};
    const reads = readingsFor(own, call);
    const ids = reads.map(({ id }) => id);
    return [...reads, { kind: 'call', id: callId(call), call, tool, given: own, reads: ids }];
  });
}

/** An argument put together: what is read comes in the order of the readings. */
export function build<T>(
  given: Given,
  parts: {
    literal(value: Json): T;
    field(call: number, path: Path): T;
    reading(): T;
    list(items: T[]): T;
    record(fields: [string, T][]): T;
  },
): T {
  switch (given.at) {
    case 'literal':
      return parts.literal(given.value);
    case 'field':
      return parts.field(given.call, given.path);
    case 'text':
      return parts.reading();
    case 'list':
      return parts.list(given.items.map((item) => build(item, parts)));
    case 'record': {
      const fields = Object.entries(given.fields);
      return parts.record(fields.map(([name, item]) => [name, build(item, parts)]));
    }
  }
}

/** How somebody who has not read a list names a record of it: by a word that was said. */
interface Picking {
  readonly list: Path;
  readonly where: string;
  readonly is: string;
  readonly rest: Path;
}

const at = (value: Json, path: Path): Json =>
  path.reduce<Json>((inner, step) => {
    if (Array.isArray(inner)) return inner[Number(step)] ?? null;
    return isObject(inner) ? (inner[String(step)] ?? null) : null;
  }, value);

/** Undefined: nothing that was said tells it from others, so it is named by its place. */
export function pickFor(
  { prompt, calls }: UserTask,
  call: number,
  path: Path,
): Picking | undefined {
  const index = path.findLastIndex((step) => typeof step === 'number');
  const rest = path.slice(index + 1);
  if (index < 1 || rest.length === 0) return undefined;
  const list = path.slice(0, index);
  const records = at(asAnswer(calls[call]?.result ?? null), list);
  const wanted = at(records, [path[index] ?? 0]);
  if (!Array.isArray(records) || !isObject(wanted)) return undefined;
  for (const [where, text] of Object.entries(wanted)) {
    if (typeof text !== 'string' || where === rest[0]) continue;
    const said = [text, ...text.split(/\s+/)].find(
      (word) => word.length > 3 && prompt.includes(word),
    );
    if (said === undefined) continue;
    const found = records.find((one) => isObject(one) && textAt(one, where).includes(said));
    if (found === wanted) return { list, where, is: said, rest };
  }
  return undefined;
}
