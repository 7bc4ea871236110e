// Finding what a name stands for: the scopes first, then what the language itself provides.
import {
  childFrame,
  contextMember,
  contextOf,
  type Descriptor,
  EMPTY,
  makeContainer,
  makeValue,
  mergeAll,
  type Value,
  withLabels,
} from '../../flow/index.ts';
import { plainCopy } from '../values/data.ts';
import { withOrigin } from '../values/kinds.ts';
import { marksOf } from './control-values.ts';
import type { Environment, Pipe } from './environment.ts';

interface Found {
  readonly value: Value;
  readonly isMissing: boolean;
}

export function findName(env: Environment, name: string): Found | undefined {
  const cell = env.scope.find(name);
  if (cell) return cell;
  const value = ambient(env, name);
  return value && { value, isMissing: false };
}

function ambient(env: Environment, name: string): Value | undefined {
  switch (name) {
    case 'mx':
    case 'ctx':
      return makeValue(plainCopy(contextOf(env.frame)), {
        descriptor: marksOfContext(env, 'input'),
      });
    case 'p':
    case 'pipeline':
      return env.pipe ? pipeView(env.pipe) : undefined;
    case 'input':
      return env.pipe ? env.pipe.input : inputOf(env);
    case 'fm':
      return env.unit.frontMatter;
    default:
      return env.run.ambient(name, env);
  }
}

/** What came in on stdin; a policy may label what carries no label. */
function inputOf({ run, frame }: Environment): Value {
  const isLabelled = run.input.meta.descriptor.labels.length > 0;
  return isLabelled ? run.input : withLabels(run.input, frame.policy.unlabelled);
}

export const isContextName = (name: string): boolean => name === 'mx' || name === 'ctx';

/** One member of `@mx`, or of `@mx.op`; the others are not even made. */
export function contextValue(env: Environment, name: string, inner?: string): Value {
  const found = contextMember(env.frame, name, inner);
  if (found === undefined) return makeValue(null);
  return makeValue(plainCopy(found), { descriptor: marksOfContext(env, name) });
}

const OF_PIPE = new Set(['pipe', 'input', 'lastOutput', 'hint', 'tries']);
const OF_DATA = new Set(['guard', 'args', 'hooks']);

function marksOfContext(env: Environment, name: string): Descriptor {
  const { frame, pipe } = env;
  if (OF_PIPE.has(name) && pipe) {
    return mergeAll([marksOf(pipe.hint), ...pipe.outputs.map(marksOf), marksOf(pipe.input)]);
  }
  if (name === 'errors') return frame.facts.errorMarks ?? EMPTY;
  if (!OF_DATA.has(name)) return EMPTY;
  return frame.facts.descriptor ?? mergeAll(frame.inputs.map(({ value }) => marksOf(value)));
}

/** `@p`: outputs by number from both ends, and the counters. */
function pipeView(pipe: Pipe): Value {
  const made = pipe.outputs.slice(1);
  const members = new Map<string, Value>();
  pipe.outputs.forEach((value, at) => members.set(String(at), value));
  made.forEach((value, at) => members.set(String(at - made.length), value));
  const history = makeContainer(pipe.history.map((outputs) => makeContainer(outputs)));
  members.set('stage', makeValue(pipe.stage));
  members.set('length', makeValue(made.length));
  members.set('try', makeValue(pipe.attempt));
  members.set('tries', history);
  members.set('retries', makeContainer(new Map([['all', history]])));
  members.set('guards', makeValue([...pipe.guards]));
  members.set('input', pipe.input);
  members.set('hint', pipe.hint ?? makeValue(null));
  return withOrigin(makeContainer(members), { pipe: true });
}

/** A member of `@p` that is not there prints as nothing. */
export const isPipeView = ({ meta }: Value): boolean => meta.origin['pipe'] === true;

/** The same frame with facts for `@mx`. */
export const withFacts = (
  env: Environment,
  ctx: Parameters<typeof childFrame>[1]['ctx'],
): Environment => ({
  ...env,
  frame: childFrame(env.frame, ctx ? { ctx } : {}),
});
