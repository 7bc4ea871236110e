// `ctx` (and `@mx`): the one view of a frame that scripts, code blocks, guards and hooks all see.
import { getOwn, isObject, type Json, type JsonObject } from '../base/index.ts';
import { mergeAll } from './descriptor.ts';
import type { ContextFacts, Frame } from './frame.ts';
import type { Operation } from './operation.ts';
import { lazyObject } from './value-view.ts';

/** Outside a pipeline the counters are those of a first and only pass. */
const NO_PIPE: JsonObject = Object.freeze({
  try: 1,
  tries: [],
  stage: 0,
  length: 0,
  input: null,
  lastOutput: null,
  hint: null,
  guards: [],
  isPipeline: false,
});

const PIPE_ALIASES = [
  'try',
  'tries',
  'stage',
  'length',
  'input',
  'lastOutput',
  'hint',
  'isPipeline',
];

const read = (fact: Json | (() => Json) | undefined): Json =>
  typeof fact === 'function' ? fact() : (fact ?? null);

function argumentsOf(frame: Frame): JsonObject {
  return Object.fromEntries(frame.inputs.map(({ name, value }) => [name, value.data]));
}

/** What the context of an expression needs to know about an operation. */
export function operationView(op: Operation, sources: readonly string[] = []): JsonObject {
  return {
    type: op.type,
    subtype: op.subtype ?? null,
    name: op.name,
    labels: [...(op.labels ?? [])],
    opLabels: [...op.opLabels],
    sources: [...sources],
    command: op.metadata?.command ?? null,
    target: op.target ?? null,
    location: op.location ? { ...op.location } : null,
    risk: [...(op.risk ?? [])],
    metadata: op.metadata ?? {},
  };
}

/** Built when asked for; members are computed when read. */
export function contextOf(frame: Frame): JsonObject {
  const { facts, op } = frame;
  const marks = () =>
    facts.descriptor ??
    mergeAll([frame.influence, ...frame.inputs.map(({ value }) => value.meta.descriptor)]);
  const operation = (): Json => (op ? operationView(op, marks().sources) : null);
  const pipe = (): JsonObject => (isObject(facts.pipe) ? { ...NO_PIPE, ...facts.pipe } : NO_PIPE);
  const members: Record<string, () => Json> = {
    op: operation,
    operation,
    pipe,
    guard: () => facts.guard ?? null,
    denied: () => facts.denied ?? false,
    errors: () => facts.errors ?? [],
    for: () => facts.for ?? null,
    loop: () => facts.loop ?? null,
    args: () => (facts.args === undefined ? argumentsOf(frame) : read(facts.args)),
    profile: () => facts.profile ?? null,
    labels: () => [...marks().labels],
    taint: () => [...marks().taint],
    sources: () => [...marks().sources],
  };
  for (const name of [
    'tools',
    'hooks',
    'thread',
    'cost',
    'limits',
  ] as const satisfies readonly (keyof ContextFacts)[]) {
    members[name] = () => read(facts[name]);
  }
  for (const name of PIPE_ALIASES) members[name] = () => getOwn(pipe(), name) ?? null;
  return lazyObject(members);
}
