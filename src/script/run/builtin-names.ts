// Names the language provides: folders, time, transformers, tools.
import { isObject } from '../../base/index.ts';
import { makeValue, type Value } from '../../flow/index.ts';
import { raise } from '../fault.ts';
import { placeOf } from '../syntax/problem.ts';
import { entriesOf, makeFunction } from '../values/kinds.ts';
import { textOf } from '../values/text.ts';
import { TRANSFORMERS, type Transformer } from '../values/transforms.ts';
import {
  type Environment,
  Executable,
  evaluateAll,
  resolvePath,
  type ScriptCall,
} from './environment.ts';
import { operate, passedAt, unwrap } from './operate.ts';

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

/** Transformers are no operations: marks pass through, guards do not see them. */
function transformerOf(transformer: Transformer): Executable {
  const variants = [...transformer.variants];
  const members = new Map(variants.map(([name, variant]) => [name, transformerOf(variant)]));
  const call: ScriptCall = async (values, { env }) =>
    await transformer.call(await evaluateAll(values, env), {
      exists: (path) => env.run.world.exists(resolvePath(env, path)),
    });
  const { name, parameters } = transformer;
  return builtIn(name, parameters, 'transformer', call, members);
}

const transformers = new Map<string, Value>();

function findTransformer(name: string): Value | undefined {
  const transformer = TRANSFORMERS.get(name);
  const known = transformers.get(name);
  if (known || !transformer) return known;
  const made = makeFunction(transformerOf(transformer));
  transformers.set(name, made);
  return made;
}

/** `@tool("fs/read_file", { path: @p })`: each parameter is an input of the operation. */
const callTool: ScriptCall = async (values, { env, at }) => {
  const [id, parameters] = values;
  if (!id)
    return raise('invalid_input', '`@tool` needs the id of a tool', {
      hint: '@tool("fs/read_file", { path: @p })',
    });
  const tool = textOf(await id(env));
  const given = await parameters?.(env);
  if (given && !isObject(given.data))
    return raise('invalid_input', 'the parameters of `@tool` are an object');
  const entries = given ? entriesOf(given) : [];
  const op = {
    type: 'tool',
    name: tool,
    opLabels: [`op:tool:${tool}`],
    sources: [`tool:${tool}`],
    retryOwner: true,
    location: placeOf(env.unit, at),
  };
  const inputs = entries.map(([key, value]) => ({ name: key, value }));
  return await operate(env, op, inputs, async (passed, inner) => {
    const named = new Map(entries.map(([key], index) => [key, passedAt(passed, index)]));
    return unwrap(await env.run.world.tool(tool, named, inner.frame));
  });
};

const callHelp: ScriptCall = async (values, { env }) => {
  const [action, message] = await evaluateAll(values, env);
  if (!action)
    return raise('invalid_input', '`@help` needs an action', { hint: '@help("escalate", "…")' });
  return unwrap(await env.run.world.help(textOf(action), message ?? makeValue(''), env.frame));
};

const TOOL = makeFunction(builtIn('tool', ['id', 'parameters'], 'tool', callTool));
const HELP = makeFunction(builtIn('help', ['action', 'message'], 'help', callHelp));

export function ambientName(name: string, env: Environment): Value | undefined {
  const { world, payload } = env.run;
  switch (name) {
    case 'root':
    case 'base':
      return makeValue(world.root);
    case 'now':
      return makeValue(world.now().toISOString());
    case 'payload':
      return payload;
    case 'tool':
      return TOOL;
    case 'help':
      return HELP;
    default:
      return findTransformer(name);
  }
}
