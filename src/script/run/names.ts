// Finding what a name stands for: the scopes first, then what the language itself provides.
import {
  childFrame,
  contextMember,
  contextOf,
  type Descriptor,
  EMPTY,
  makeContainer,
  makeValue,
  type Value,
  withLabels,
} from '../../flow/index.ts';
import { plainCopy } from '../values/data.ts';
import { marksOf, withOrigin } from '../values/kinds.ts';
import { ambientName } from './builtin-names.ts';
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
      return ambientName(name, env);
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
    return marksOf([...(pipe.hint ? [pipe.hint] : []), ...pipe.outputs, pipe.input]);
  }
  if (name === 'errors') return frame.facts.errorMarks ?? EMPTY;
  if (!OF_DATA.has(name)) return EMPTY;
  return frame.facts.descriptor ?? marksOf(frame.inputs.map(({ value }) => value));
}

/** `@p`: outputs by number from both ends, and the counters. */
function pipeView(pipe: Pipe): Value {
  const made = pipe.outputs.slice(1);
  const history = makeContainer(pipe.history.map((outputs) => makeContainer(outputs)));
  const members: [string, Value][] = [
    ...pipe.outputs.map((value, at): [string, Value] => [String(at), value]),
    ...made.map((value, at): [string, Value] => [String(at - made.length), value]),
    ['stage', makeValue(pipe.stage)],
    ['length', makeValue(made.length)],
    ['try', makeValue(pipe.attempt)],
    ['tries', history],
    ['retries', makeContainer(new Map([['all', history]]))],
    ['guards', makeValue([...pipe.guards])],
    ['input', pipe.input],
    ['hint', pipe.hint ?? makeValue(null)],
  ];
  return withOrigin(makeContainer(new Map(members)), { pipe: true });
}

/** A member of `@p` that is not there prints as nothing. */
export const isPipeView = ({ meta }: Value): boolean => meta.origin['pipe'] === true;

/** The same frame with facts for `@mx`. */
export const withFacts = (
  env: Environment,
  ctx: NonNullable<Parameters<typeof childFrame>[1]['ctx']>,
): Environment => ({ ...env, frame: childFrame(env.frame, { ctx }) });
