// Turns the calls of a task into steps of a model that copies no value. A value inside a text gets a
// reading step of its own, and each step names the parts of earlier answers that it receives.
import { isObject, type Json, type JsonObject, textAt } from '@kernmantle/core/base';
import type { UserTask } from './cases.ts';
import { asAnswer, type Given, type GivenArguments, type Path, readings } from './sources.ts';

export interface ReadingStep {
  readonly kind: 'reading';
  readonly id: string;
  /** The question to the reader. It also identifies the step. */
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
  /** The reading steps for this call, in the order in which its arguments use them. */
  readonly reads: readonly string[];
}

export type TaskStep = ReadingStep | UserStep;

const DATE = /^\d{4}-\d\d-\d\d$/;

/** Returns the narrowest schema for a value, such as `date` instead of any text. */
function schemaOf(value: Json): JsonObject {
  if (typeof value === 'number') return { type: Number.isInteger(value) ? 'integer' : 'number' };
  return typeof value === 'string' && DATE.test(value)
    ? { type: 'string', format: 'date' }
    : { type: 'string' };
}

const callId = (call: number): string => `u${call}`;

/** Returns the reading steps for the arguments of one call, in order. */
const readingsFor = (args: GivenArguments, call: number): ReadingStep[] => {
  const all = Object.entries(args).flatMap(([parameter, argument]) =>
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

/** Returns all steps of a task in order. */
export function stepsOf({ calls }: UserTask, given: readonly GivenArguments[]): TaskStep[] {
  return calls.flatMap(({ tool }, call): TaskStep[] => {
    const own = given[call] ?? {};
    const reads = readingsFor(own, call);
    const ids = reads.map(({ id }) => id);
    return [...reads, { kind: 'call', id: callId(call), call, tool, given: own, reads: ids }];
  });
}

/** Builds an argument from its origin. Calls `reading` in the order of the reading steps. */
export function build<T>(
  origin: Given,
  parts: {
    literal(value: Json): T;
    field(call: number, path: Path): T;
    reading(): T;
    list(items: T[]): T;
    record(fields: [string, T][]): T;
  },
): T {
  switch (origin.at) {
    case 'literal':
      return parts.literal(origin.value);
    case 'field':
      return parts.field(origin.call, origin.path);
    case 'text':
      return parts.reading();
    case 'list':
      return parts.list(origin.items.map((item) => build(item, parts)));
    case 'record': {
      const fields = Object.entries(origin.fields);
      return parts.record(fields.map(([name, item]) => [name, build(item, parts)]));
    }
  }
}

/** A choice of a list element by a word of the prompt. A plan needs it, because it does not see the list. */
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

/** Returns undefined if no word of the prompt identifies the element. The plan then uses its index. */
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
    const match = [text, ...text.split(/\s+/)].find(
      (word) => word.length > 3 && prompt.includes(word),
    );
    if (match === undefined) continue;
    const found = records.find((one) => isObject(one) && textAt(one, where).includes(match));
    if (found === wanted) return { list, where, is: match, rest };
  }
  return undefined;
}
