// `import templates from "./dir" as @t(arg)`: every `.att` and `.mtt` below, by folder, as a function.
import { basename, extname, join } from 'node:path';
import { makeContainer, makeValue, type Value } from '../../flow/index.ts';
import { raise } from '../fault.ts';
import type { Compiler, Environment, Exports } from '../run/environment.ts';
import { unwrap } from '../run/operate.ts';
import type { Parameter, TemplateFileExpression } from '../syntax/ast.ts';
import { makeFunction } from '../values/function-data.ts';
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

async function membersOf(
  c: Compiler,
  folder: string,
  parameters: readonly Parameter[],
  env: Environment,
  depth: number,
): Promise<Map<string, Value>> {
  if (depth > MAX_DEPTH) return raise('quota_exceeded', `\`${folder}\` is nested too deeply`);
  const found = new Map<string, Value>();
  for (const { name, isFolder } of unwrap(await env.run.world.list(folder, env.frame))) {
    if (name.startsWith('.')) continue;
    const path = join(folder, name);
    if (isFolder) {
      const members = await membersOf(c, path, parameters, env, depth + 1);
      if (members.size > 0) found.set(name, makeContainer(members));
    } else if (/\.(?:att|mtt)$/.test(name))
      found.set(basename(name, extname(name)), functionOf(c, path, parameters, env));
  }
  return found;
}

export async function templatesIn(
  c: Compiler,
  folder: string,
  parameters: readonly Parameter[],
  env: Environment,
): Promise<Exports> {
  const names = await membersOf(c, folder, parameters, env, 0);
  if (names.size === 0)
    return raise('not_found', `there are no templates (\`.att\`, \`.mtt\`) in \`${folder}\``);
  return { names, frontMatter: makeValue(null), path: folder };
}
