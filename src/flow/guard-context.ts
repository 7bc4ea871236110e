// What a guard's condition can read: `input`, `output`, `op`, `ctx`. The expression language has no
// calls, so questions over several inputs are data: `"secret" in input.any.labels`.
import type { Json, JsonObject } from '../base/index.ts';
import type { ContextSchema } from '../expr/index.ts';
import { contextOf, operationView } from './context.ts';
import { type Descriptor, mergeAll, mergeDescriptors } from './descriptor.ts';
import type { GuardView } from './guard.ts';
import type { Argument } from './operation.ts';
import type { Value } from './value.ts';
import { lazyObject, tokensOf, typeOf, valueContext } from './value-view.ts';

const list = (items: readonly string[]): Json => items as Json;

function valueView(value: Value, marks: Descriptor, more: Record<string, () => Json>): JsonObject {
  const ctx = () => valueContext(value);
  return lazyObject({
    text: () => value.text,
    data: () => value.data,
    type: () => typeOf(value.data),
    length: () => ctx().length ?? 0,
    labels: () => list(marks.labels),
    taint: () => list(marks.taint),
    sources: () => list(marks.sources),
    tokens: () => tokensOf(value),
    tokest: () => ctx().tokest ?? 0,
    ctx,
    mx: ctx,
    ...more,
  });
}

function argumentView({ name, role, value }: Argument, influence: Descriptor): JsonObject {
  const marks = mergeDescriptors(value.meta.descriptor, influence);
  return valueView(value, marks, { name: () => name, role: () => role ?? null });
}

type MarkKind = 'labels' | 'taint' | 'sources';
const MARKS: readonly MarkKind[] = ['labels', 'taint', 'sources'];

const everywhere = (lists: readonly (readonly string[])[]): Json =>
  (lists[0] ?? []).filter((mark) => lists.every((other) => other.includes(mark)));

/**
 * All marks except these, as an object whose own keys are asked for one by one: the set of what no
 * input carries has no end, so it cannot be listed.
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

/** Several inputs judged together. */
function groupView(inputs: readonly Argument[], influence: Descriptor): JsonObject {
  const each = inputs.map(({ value }) => mergeDescriptors(value.meta.descriptor, influence));
  const union = mergeAll([influence, ...each]);
  const tokens = () => inputs.map(({ value }) => tokensOf(value));
  const marks = (pick: (kind: MarkKind) => Json) =>
    lazyObject(Object.fromEntries(MARKS.map((kind) => [kind, () => pick(kind)])));
  const joined = () => inputs.map(({ value }) => value.text).join('\n');
  const total = () => tokens().reduce((sum, count) => sum + count, 0);
  const views = () => inputs.map((input) => argumentView(input, influence));
  return lazyObject({
    count: () => inputs.length,
    text: joined,
    data: () => inputs.map(({ value }) => value.data),
    labels: () => list(union.labels),
    taint: () => list(union.taint),
    sources: () => list(union.sources),
    tokens: total,
    totalTokens: total,
    maxTokens: () => Math.max(0, ...tokens()),
    minTokens: () => (inputs.length === 0 ? 0 : Math.min(...tokens())),
    any: () => ({ ...marks((kind) => list(union[kind])), text: joined() }),
    all: () => marks((kind) => everywhere(each.map((one) => one[kind]))),
    none: () => marks((kind) => allBut(union[kind])),
    args: () => Object.fromEntries(inputs.map((input, at) => [input.name, views()[at] ?? null])),
    ctx: () => marks((kind) => list(union[kind])),
    mx: () => marks((kind) => list(union[kind])),
  });
}

export function guardContext(view: GuardView): JsonObject {
  const { op, input, inputs, output, frame } = view;
  const { influence } = frame;
  return lazyObject({
    input: () => (input ? argumentView(input, influence) : groupView(inputs, influence)),
    output: () =>
      output ? valueView(output, mergeDescriptors(output.meta.descriptor, influence), {}) : null,
    op: () => operationView(op),
    ctx: () => contextOf(frame),
  });
}

const MARK_NAMES: ContextSchema = { labels: 'value', taint: 'value', sources: 'value' };
const OP_NAMES: ContextSchema = {
  type: 'value',
  subtype: 'value',
  name: 'value',
  labels: 'value',
  opLabels: 'value',
  sources: 'value',
  command: 'value',
  target: 'value',
  location: { file: 'value', line: 'value', column: 'value' },
  risk: 'value',
  metadata: 'open',
};

/** The names above, for `check`. Data, facts of files and commands, and counters are open. */
export const GUARD_CONTEXT: ContextSchema = {
  input: {
    ...MARK_NAMES,
    text: 'value',
    data: 'open',
    type: 'value',
    length: 'value',
    name: 'value',
    role: 'value',
    tokens: 'value',
    tokest: 'value',
    count: 'value',
    totalTokens: 'value',
    maxTokens: 'value',
    minTokens: 'value',
    any: { ...MARK_NAMES, text: 'value' },
    all: MARK_NAMES,
    none: MARK_NAMES,
    args: 'open',
    ctx: 'open',
    mx: 'open',
  },
  output: {
    ...MARK_NAMES,
    text: 'value',
    data: 'open',
    type: 'value',
    length: 'value',
    tokens: 'value',
    tokest: 'value',
    ctx: 'open',
    mx: 'open',
  },
  op: OP_NAMES,
  ctx: {
    ...MARK_NAMES,
    op: OP_NAMES,
    operation: OP_NAMES,
    pipe: 'open',
    guard: 'open',
    denied: 'value',
    errors: 'open',
    for: 'open',
    loop: 'open',
    args: 'open',
    tools: 'open',
    profile: 'value',
    hooks: 'open',
    thread: 'open',
    cost: 'open',
    limits: 'open',
    try: 'value',
    tries: 'open',
    stage: 'value',
    length: 'value',
    input: 'open',
    lastOutput: 'open',
    hint: 'open',
    isPipeline: 'value',
  },
};
