// `import templates from "./dir" as @t(arg)`: every `.att` and `.mtt` below, by folder, as a function.
import { basename, extname, join } from 'node:path';
import { type MaybePromise, makeContainer, makeValue, type Value } from '../../flow/index.ts';
import { raise } from '../fault.ts';
import type { Compiler, Environment, Exports } from '../run/environment.ts';
import { unwrap } from '../run/operate.ts';
import type { Parameter, TemplateFileExpression } from '../syntax/ast.ts';
import { makeFunction } from '../values/function-data.ts';
import { mapInTurn, andThen as then } from '../wait.ts';
import { compileFunction } from './function.ts';

const MAX_DEPTH = 10;

const bare = (path: string) =>
  ({ kind: 'template', style: 'bare', parts: [path], at: 0, end: 0 }) as const;

function functionOf(
  c: Compiler,
  path: string,
  parameters: readonly Parameter[],
  env: Environment,
): Value {
  const body: TemplateFileExpression = { kind: 'template-file', path: bare(path), at: 0, end: 0 };
  const name = basename(path, extname(path));
  const make = compileFunction(c.forFunction(), {
    kind: 'exe',
    labels: [],
    name,
    parameters,
    body,
    options: undefined,
    at: 0,
    end: 0,
  });
  return makeFunction(make(env));
}

function membersOf(
  c: Compiler,
  folder: string,
  parameters: readonly Parameter[],
  env: Environment,
  depth: number,
): MaybePromise<Map<string, Value>> {
  if (depth > MAX_DEPTH) return raise('quota_exceeded', `\`${folder}\` is nested too deeply`);
  return then(env.run.world.list(folder, env.frame), (outcome) => {
    const entries = unwrap(outcome).filter(({ name }) => !name.startsWith('.'));
    const found = mapInTurn(
      entries,
      ({ name, isFolder }): MaybePromise<[string, Value] | undefined> => {
        const path = join(folder, name);
        if (isFolder)
          return then(membersOf(c, path, parameters, env, depth + 1), (members) =>
            members.size > 0 ? [name, makeContainer(members)] : undefined,
          );
        return /\.(?:att|mtt)$/.test(name)
          ? [basename(name, extname(name)), functionOf(c, path, parameters, env)]
          : undefined;
      },
    );
    return then(found, (list) => new Map(list.filter((entry) => entry !== undefined)));
  });
}

export function templatesIn(
  c: Compiler,
  folder: string,
  parameters: readonly Parameter[],
  env: Environment,
): MaybePromise<Exports> {
  return then(membersOf(c, folder, parameters, env, 0), (names) => {
    if (names.size === 0)
      return raise('not_found', `there are no templates (\`.att\`, \`.mtt\`) in \`${folder}\``);
    return { names, frontMatter: makeValue(null), path: folder };
  });
}
