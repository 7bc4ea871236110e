// Hot: this file runs for each step of a script, and a promise costs more than most steps.
// Finds the value of a name: in the scopes first, then among the names of the language.
import { isObject, nearest, whenReady } from '@kernmantle/core/base';
import {
  CONTEXT_VIEW,
  callOf,
  childFrame,
  contextMember,
  contextOf,
  type Descriptor,
  EMPTY,
  makeContainer,
  makeValue,
  OPERATION_VIEW,
  type PreviewWrite,
  type Value,
  withLabels,
  withOrigin,
} from '@kernmantle/core/flow';
import { raise } from '../fault.ts';
import { locationOf } from '../problem.ts';
import { plainCopy } from '../values/data.ts';
import { absent, entriesOf, makeFunction, marksOf } from '../values/kinds.ts';
import { textOf } from '../values/text.ts';
import { TRANSFORMERS, type Transformer } from '../values/transforms.ts';
import {
  type CallSite,
  type Environment,
  Executable,
  evaluateAll,
  type Pipe,
  resolvePath,
  type ScriptCall,
} from './environment.ts';
import { testsExistence } from './existence.ts';
import { operate, unwrap, valueAt } from './operate.ts';

interface FoundName {
  readonly value: Value;
  readonly isMissing: boolean;
}

export function findName(env: Environment, name: string): FoundName | undefined {
  const cell = env.scope.find(name);
  if (cell) return cell;
  const ambient = AMBIENT.get(name);
  const value = ambient ? ambient(env) : findTransformer(name);
  return value && { value, isMissing: false };
}

type Ambient = (env: Environment) => Value | undefined;

const whole: Ambient = (env) =>
  makeValue(plainCopy(contextOf(env.frame)), { descriptor: marksOfContext(env, 'input') });
const view: Ambient = ({ pipe }) => pipe && pipeView(pipe);
const frontMatter: Ambient = ({ unit }) => unit.frontMatter;
const root: Ambient = ({ run }) => makeValue(run.world.root);

const AMBIENT: ReadonlyMap<string, Ambient> = new Map<string, Ambient>([
  ['mx', whole],
  ['ctx', whole],
  ['p', view],
  ['pipeline', view],
  ['input', (env) => env.pipe?.input ?? inputOf(env)],
  ['fm', frontMatter],
  ['frontmatter', frontMatter],
  ['root', root],
  ['base', root],
  ['now', ({ run }) => makeValue(run.world.now().toISOString())],
  ['payload', ({ run }) => run.payload],
  ['tool', () => TOOL],
  ['help', () => HELP],
]);

export const PROVIDED: ReadonlySet<string> = new Set([...AMBIENT.keys(), ...TRANSFORMERS.keys()]);

/** Returns the input from stdin. A policy can label input without labels. */
function inputOf({ run, frame }: Environment): Value {
  const isLabelled = run.input.meta.descriptor.labels.length > 0;
  return isLabelled ? run.input : withLabels(run.input, frame.policy.unlabelled);
}

export const isContextName = (name: string): boolean => name === 'mx' || name === 'ctx';

/** True in a guard, in a `denied` arm, and in the functions that they call. */
export const isJudged = ({ frame }: Environment): boolean => frame.facts.guard !== undefined;

export const refuseGuard = (): never =>
  raise('not_found', '`@mx.guard` exists only in guards and denied arms', {
    hint: 'write `@mx.guard.reason?`, which is undefined elsewhere',
  });

/** Fails on an unknown member in a guard, because the condition would never hold. */
function refuseMember(name: string, inner: string | undefined): never {
  const [whole, member] = inner === undefined ? ['@mx', name] : [`@mx.${name}`, inner];
  const members = Object.keys(inner === undefined ? CONTEXT_VIEW : OPERATION_VIEW);
  const meant = nearest(member, members);
  return raise('not_found', `\`${whole}\` has no \`${member}\``, {
    hint: meant === undefined ? members.join(', ') : `did you mean \`${meant}\`?`,
  });
}

/** Returns one member of `@mx` or `@mx.op`. Other members are not computed. */
export function contextValue(
  env: Environment,
  name: string,
  inner: string | undefined,
  isNeeded: boolean,
  isTested: boolean,
): Value {
  if (name === 'guard' && !isJudged(env)) return isNeeded ? refuseGuard() : absent();
  const found = contextMember(env.frame, name, inner);
  if (found === undefined)
    return env.frame.isJudging && !isTested ? refuseMember(name, inner) : makeValue(null);
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
  // Outside of guards `tools` has only the names of functions.
  const isOfData = name === 'tools' ? frame.isJudging : OF_DATA.has(name);
  if (!isOfData) return EMPTY;
  return frame.facts.descriptor ?? marksOf(callOf(frame).inputs.map(({ value }) => value));
}

/** Returns `@p`: the outputs by number from both ends, and the counters. */
function pipeView(pipe: Pipe): Value {
  const results = pipe.outputs.slice(1);
  const lists = pipe.history.map((outputs) => makeContainer(outputs));
  const running = pipe.reruns && makeContainer(pipe.reruns);
  const all =
    pipe.reruns && pipe.reruns.length > 0 ? [...lists, makeContainer(pipe.reruns)] : lists;
  const members: [string, Value][] = [
    ...pipe.outputs.map((value, at): [string, Value] => [String(at), value]),
    ...results.map((value, at): [string, Value] => [String(at - results.length), value]),
    ['stage', makeValue(pipe.stage)],
    ['length', makeValue(results.length)],
    ['try', makeValue(pipe.attempt)],
    ['tries', running ?? makeContainer(lists)],
    ['retries', makeContainer(new Map([['all', makeContainer(all)]]))],
    ['guards', makeValue([...pipe.guards])],
    ['input', pipe.input],
    ['hint', pipe.hint ?? makeValue(null)],
  ];
  return withOrigin(makeContainer(new Map(members)), { pipe: true });
}

/** True for `@p`, whose missing members print an empty text. */
export const isPipeView = ({ meta }: Value): boolean => meta.origin['pipe'] === true;

export const withFacts = (
  env: Environment,
  ctx: NonNullable<Parameters<typeof childFrame>[1]['ctx']>,
): Environment => ({ ...env, frame: childFrame(env.frame, { ctx }) });

function builtIn(
  name: string,
  parameters: readonly string[],
  bodyKind: string,
  call: ScriptCall,
  members: ReadonlyMap<string, Executable> = new Map(),
): Executable {
  const signature = { name, parameters, labels: [], bodyKind, source: undefined, members };
  return new Executable(signature, { call, refused: undefined });
}

/** Returns a transformer as a function. It is not an operation: marks pass through, and guards do not judge it. */
function transformerOf(transformer: Transformer): Executable {
  const variants = [...transformer.variants];
  const members = new Map(variants.map(([name, variant]) => [name, transformerOf(variant)]));
  const asks = testsExistence(transformer.name);
  const call: ScriptCall = (values, { env, asked }) => {
    if (asks && asked) return asked(env);
    return whenReady(evaluateAll(values, env), (results) =>
      transformer.call(results, {
        exists: (path) => env.run.world.exists(resolvePath(env, path), env.frame),
      }),
    );
  };
  return builtIn(transformer.name, ['input'], 'transformer', call, members);
}

let transformers: ReadonlyMap<string, Value> | undefined;

function findTransformer(name: string): Value | undefined {
  transformers ??= new Map(
    Array.from(TRANSFORMERS, ([key, transformer]) => [
      key,
      makeFunction(transformerOf(transformer)),
    ]),
  );
  return transformers.get(name);
}

/** Implements `@tool("fs/read_file", { path: @p })`. */
const callTool: ScriptCall = async (values, { env, at }) => {
  const [id, parameters] = values;
  if (!id)
    return raise('invalid_input', '`@tool` needs the id of a tool', {
      hint: 'write `@tool("fs/read_file", { path: @p })`',
    });
  const tool = textOf(await id(env));
  const input = await parameters?.(env);
  if (input && !isObject(input.data))
    return raise('invalid_input', 'the parameters of `@tool` must be an object');
  return await performTool(tool, input ? entriesOf(input) : [], { env, at });
};

/** Performs the operation `tool`. Each parameter is one input of it. */
export async function performTool(
  tool: string,
  entries: readonly (readonly [string, Value])[],
  { env, at }: Pick<CallSite, 'env' | 'at'>,
  called: readonly string[] = [],
): Promise<Value> {
  const reads = env.run.world.reads?.(tool);
  const op = {
    type: 'tool' as const,
    name: tool,
    opLabels: [`op:tool:${tool}`],
    sources: [`tool:${tool}`],
    retryOwner: true,
    location: locationOf(env.unit, at),
    ...(reads && { reads }),
    ...(called.length > 0 && { called }),
  };
  const preview: PreviewWrite = async (allInputs) =>
    await env.run.world.previewTool?.(tool, allInputs);
  const inputs = entries.map(([key, value]) => ({ name: key, value, preview }));
  return await operate(env, op, inputs, async (passed, inner) => {
    const named = new Map(entries.map(([key], index) => [key, valueAt(passed, index)]));
    return unwrap(await env.run.world.tool(tool, named, inner.frame));
  });
}

const callHelp: ScriptCall = async (values, { env }) => {
  const [action, message] = await evaluateAll(values, env);
  if (!action)
    return raise('invalid_input', '`@help` needs an action', { hint: '@help("escalate", "…")' });
  return unwrap(await env.run.world.help(textOf(action), message ?? makeValue(''), env.frame));
};

/** Numbers of arguments of the built-in functions. */
export const ARITIES: ReadonlyMap<string, number> = new Map<string, number>([
  ...Array.from(TRANSFORMERS.keys(), (name) => [name, 1] as const),
  ['tool', 2],
  ['help', 2],
]);

const TOOL = makeFunction(builtIn('tool', ['id', 'parameters'], 'tool', callTool));
const HELP = makeFunction(builtIn('help', ['action', 'message'], 'help', callHelp));
