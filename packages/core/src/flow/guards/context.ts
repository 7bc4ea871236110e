// Makes `ctx` (and `@mx`), the view of a frame that scripts, code blocks, guards and hooks share.
import { getOwn, isObject, type Json, type JsonObject } from '../../base/index.ts';
import type { Frame } from '../frame.ts';
import { isEffect, type Operation } from '../operation.ts';
import { type Descriptor, mergeAll } from '../values/labels.ts';
import { type ViewTable, viewOf } from '../values/value-view.ts';

/** Counters outside of a pipeline, as in the first and only pass. */
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

const NO_CALLS: JsonObject = Object.freeze({ calls: [], history: [] });
const NO_ERRORS: JsonObject = Object.freeze({ errors: [] });

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

const marksOf = ({ facts, influence, inputs }: Frame): Descriptor =>
  facts.descriptor ?? mergeAll([influence, ...inputs.map(({ value }) => value.meta.descriptor)]);

function pipeOf({ facts }: Frame): JsonObject {
  const pipe = read(facts.pipe);
  return isObject(pipe) ? { ...NO_PIPE, ...pipe } : NO_PIPE;
}

/**
 * Returns the frame of the call that `ctx.args` describes. The arguments of an effect are evaluated
 * inside of the effect.
 */
export function callOf(frame: Frame): Frame {
  let call = frame;
  while (call.op && isEffect(call.op) && call.inputs.length === 0 && call.parent)
    call = call.parent;
  return call;
}

const argumentsOf = (frame: Frame): Json =>
  frame.facts.args === undefined
    ? Object.fromEntries(callOf(frame).inputs.map(({ name, value }) => [name, value.data]))
    : read(frame.facts.args);

/** Returns the names of the arguments for `ctx.args.names`. */
function argumentNames(frame: Frame): string[] {
  const values = argumentsOf(frame);
  return isObject(values) ? Object.keys(values) : [];
}

export const OPERATION_VIEW: ViewTable<Operation> = {
  type: ({ type }) => type,
  subtype: ({ subtype }) => subtype ?? null,
  name: ({ name }) => name,
  labels: ({ labels }) => [...(labels ?? [])],
  opLabels: ({ opLabels }) => [...opLabels],
  sources: ({ sources }) => [...(sources ?? [])],
  command: ({ metadata }) => metadata?.command ?? null,
  target: ({ target }) => target ?? null,
  location: ({ location }) => (location ? { ...location } : null),
  risk: ({ risk }) => [...(risk ?? [])],
  metadata: ({ metadata }) => metadata ?? {},
};

const currentOf = (frame: Frame): Operation | undefined => frame.facts.op ?? frame.op;

function operationOf(frame: Frame): Json {
  const op = currentOf(frame);
  return op ? { ...viewOf(OPERATION_VIEW, op), sources: [...marksOf(frame).sources] } : null;
}

export const CONTEXT_VIEW: ViewTable<Frame> = {
  op: operationOf,
  operation: operationOf,
  pipe: pipeOf,
  guard: ({ facts }) => read(facts.guard),
  denied: ({ facts }) => facts.denied ?? false,
  errors: ({ facts }) => facts.errors ?? [],
  for: ({ facts }) => facts.for ?? null,
  loop: ({ facts }) => facts.loop ?? null,
  while: ({ facts }) => facts.while ?? null,
  args: argumentsOf,
  tools({ facts }) {
    const tools = read(facts.tools);
    return isObject(tools) ? { ...NO_CALLS, ...tools } : NO_CALLS;
  },
  profile: ({ facts }) => facts.profile ?? null,
  hooks: ({ facts }) => read(facts.hooks ?? NO_ERRORS),
  thread: ({ facts }) => read(facts.thread),
  cost: ({ facts }) => read(facts.cost),
  limits: ({ facts }) => read(facts.limits),
  labels: (frame) => [...marksOf(frame).labels],
  taint: (frame) => [...marksOf(frame).taint],
  sources: (frame) => [...marksOf(frame).sources],
  ...Object.fromEntries(
    PIPE_ALIASES.map((name) => [name, (frame: Frame) => getOwn(pipeOf(frame), name) ?? null]),
  ),
};

/** The view for `ctx` as one object. Its `args` has the values by name and the list `names`. */
const WHOLE_VIEW: ViewTable<Frame> = {
  ...CONTEXT_VIEW,
  args(frame) {
    const values = argumentsOf(frame);
    return isObject(values) ? { names: argumentNames(frame), ...values } : values;
  },
};

/** Returns `ctx`. Its members are computed when they are read. */
export const contextOf = (frame: Frame): JsonObject => viewOf(WHOLE_VIEW, frame);

/**
 * Returns one member of `ctx`, or of `ctx.op`, without computing the others. Undefined if it does not exist.
 */
export function contextMember(frame: Frame, name: string, inner?: string): Json | undefined {
  if (name === 'args' && inner === 'names') return argumentNames(frame);
  const isOperation = name === 'op' || name === 'operation';
  const op =
    isOperation && inner !== undefined && inner !== 'sources' ? currentOf(frame) : undefined;
  if (op && inner !== undefined) {
    return Object.hasOwn(OPERATION_VIEW, inner) ? OPERATION_VIEW[inner]?.(op) : undefined;
  }
  return Object.hasOwn(CONTEXT_VIEW, name) ? CONTEXT_VIEW[name]?.(frame) : undefined;
}
