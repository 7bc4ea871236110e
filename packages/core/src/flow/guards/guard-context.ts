// Makes the context of a guard's condition: `input`, `output`, `op`, `ctx`. The expression language has no
// calls, so questions about several inputs are data: `"secret" in input.any.labels`. Only the members
// that the condition reads are computed.
import type { Json, JsonObject } from '../../base/index.ts';
import type { CompiledExpression, ContextSchema } from '../../expr/index.ts';
import type { GuardView } from '../frame.ts';
import { type Argument, INPUT_ROLES, OPERATION_TYPES, RISKS } from '../operation.ts';
import { type Descriptor, mergeAll, mergeDescriptors } from '../values/labels.ts';
import type { Value } from '../values/value.ts';
import {
  tokensOf,
  VALUE_FACTS,
  type ViewTable,
  valueContext,
  viewOf,
} from '../values/value-view.ts';
import { CONTEXT_VIEW, OPERATION_VIEW } from './context.ts';

interface One {
  readonly value: Value;
  readonly marks: Descriptor;
  readonly argument: Argument | undefined;
}

const list = (items: readonly string[]): Json => items as Json;

const ONE: ViewTable<One> = {
  ...Object.fromEntries(
    ['type', 'length', 'tokens', 'tokest'].map((name) => [
      name,
      ({ value }: One) => VALUE_FACTS[name]?.(value) ?? null,
    ]),
  ),
  text: ({ value }) => value.text,
  data: ({ value }) => value.data,
  labels: ({ marks }) => list(marks.labels),
  taint: ({ marks }) => list(marks.taint),
  sources: ({ marks }) => list(marks.sources),
  name: ({ argument }) => argument?.name ?? null,
  role: ({ argument }) => argument?.role ?? null,
  ctx: ({ value }) => valueContext(value),
  mx: ({ value }) => valueContext(value),
};

const oneOf = (value: Value, influence: Descriptor, argument?: Argument): One => ({
  value,
  marks: mergeDescriptors(value.meta.descriptor, influence),
  argument,
});

interface InputGroup {
  readonly inputs: readonly Argument[];
  readonly influence: Descriptor;
}

type MarkKind = 'labels' | 'taint' | 'sources';
const MARKS: readonly MarkKind[] = ['labels', 'taint', 'sources'];

const eachOf = ({ inputs, influence }: InputGroup): readonly Descriptor[] =>
  inputs.map(({ value }) => mergeDescriptors(value.meta.descriptor, influence));
const unionOf = (group: InputGroup): Descriptor => mergeAll([group.influence, ...eachOf(group)]);
const tokensIn = ({ inputs }: InputGroup): number[] => inputs.map(({ value }) => tokensOf(value));
const totalTokens = (group: InputGroup): number =>
  tokensIn(group).reduce((sum, count) => sum + count, 0);
const joined = ({ inputs }: InputGroup): string => inputs.map(({ value }) => value.text).join('\n');

const everywhere = (lists: readonly (readonly string[])[]): Json =>
  (lists[0] ?? []).filter((mark) => lists.every((other) => other.includes(mark)));

/**
 * Returns the set of all marks except these. The set is infinite, so it is an object that answers for single
 * keys and cannot be listed.
 */
function allBut(marks: readonly string[]): Json {
  return new Proxy(
    {},
    {
      getOwnPropertyDescriptor: (_, key) =>
        marks.includes(String(key))
          ? undefined
          : { value: true, enumerable: true, configurable: true, writable: false },
      has: (_, key) => !marks.includes(String(key)),
      get: (_, key) => (typeof key === 'string' && !marks.includes(key) ? true : undefined),
    },
  );
}

const byKind = (pick: (kind: MarkKind) => Json): JsonObject =>
  Object.fromEntries(MARKS.map((kind) => [kind, pick(kind)]));

const marksIn = (group: InputGroup): JsonObject => byKind((kind) => list(unionOf(group)[kind]));

/** Members for several inputs that are judged together. */
const MANY: ViewTable<InputGroup> = {
  count: ({ inputs }) => inputs.length,
  text: joined,
  data: ({ inputs }) => inputs.map(({ value }) => value.data),
  labels: (group) => list(unionOf(group).labels),
  taint: (group) => list(unionOf(group).taint),
  sources: (group) => list(unionOf(group).sources),
  tokens: totalTokens,
  totalTokens,
  maxTokens: (group) => Math.max(0, ...tokensIn(group)),
  minTokens: (group) => (group.inputs.length === 0 ? 0 : Math.min(...tokensIn(group))),
  any: (group) => ({ ...marksIn(group), text: joined(group) }),
  all: (group) => byKind((kind) => everywhere(eachOf(group).map((one) => one[kind]))),
  none: (group) => byKind((kind) => allBut(unionOf(group)[kind])),
  args: ({ inputs, influence }) =>
    Object.fromEntries(
      inputs.map((input) => [input.name, viewOf(ONE, oneOf(input.value, influence, input))]),
    ),
  ctx: marksIn,
  mx: marksIn,
};

type NameList = readonly string[] | undefined;

const ROOTS: Readonly<Record<string, (view: GuardView, names: NameList) => Json>> = {
  input({ input, inputs, frame }, names) {
    const { influence } = frame;
    return input
      ? viewOf(ONE, oneOf(input.value, influence, input), names)
      : viewOf(MANY, { inputs, influence }, names);
  },
  output: ({ output, frame }, names) =>
    output ? viewOf(ONE, oneOf(output, frame.influence), names) : null,
  op: ({ op }, names) => viewOf(OPERATION_VIEW, op, names),
  ctx: ({ frame }, names) => viewOf(CONTEXT_VIEW, frame, names),
};

/** Analyses a condition once, and returns the function that makes its context for each evaluation. */
export function contextMaker({ paths }: CompiledExpression): (view: GuardView) => JsonObject {
  const membersByRoot = new Map<string, Set<string> | undefined>();
  for (const { path } of paths) {
    const [root = '', member] = path;
    const members = membersByRoot.has(root) ? membersByRoot.get(root) : new Set<string>();
    membersByRoot.set(root, member === undefined ? undefined : members?.add(member));
  }
  const plan = [...membersByRoot]
    .filter(([root]) => Object.hasOwn(ROOTS, root))
    .map(([root, members]) => ({ root, names: members && [...members] }));
  return (view) => {
    const context: JsonObject = {};
    for (const { root, names } of plan) context[root] = ROOTS[root]?.(view, names) ?? null;
    return context;
  };
}

/** Below these names `check` accepts any path: data, facts of files and commands, counters. */
const OPEN = new Set(
  'args cost ctx data errors for guard hint hooks input lastOutput limits loop metadata mx pipe thread tools tries'.split(
    ' ',
  ),
);

const namesOf = (table: object, extra: ContextSchema = {}): ContextSchema =>
  Object.fromEntries(
    Object.keys(table).map((name) => [
      name,
      extra[name] ?? (OPEN.has(name) ? 'open' : ('value' as const)),
    ]),
  );

const MARK_NAMES: ContextSchema = { labels: 'value', taint: 'value', sources: 'value' };
const OP_NAMES = namesOf(OPERATION_VIEW, {
  type: OPERATION_TYPES,
  risk: RISKS,
  location: { file: 'value', line: 'value', column: 'value' },
});
const { name: _, role: __, ...OF_RESULT } = ONE;

export const GUARD_CONTEXT: ContextSchema = {
  input: namesOf(
    { ...ONE, ...MANY },
    { role: INPUT_ROLES, any: { ...MARK_NAMES, text: 'value' }, all: MARK_NAMES, none: MARK_NAMES },
  ),
  output: namesOf(OF_RESULT),
  op: OP_NAMES,
  ctx: namesOf(CONTEXT_VIEW, { op: OP_NAMES, operation: OP_NAMES }),
};
