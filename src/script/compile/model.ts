// Bodies that need something from outside: template files and models.
import { extname } from 'node:path';
import { makeValue } from '../../flow/index.ts';
import { type Compiler, type Eval, resolvePath } from '../run/environment.ts';
import { unwrap } from '../run/operate.ts';
import type { Node } from '../syntax/ast.ts';
import { parseTemplateFile } from '../syntax/parse.ts';
import { compileText } from './text.ts';

/** The text of an `.att` or `.mtt` file as a template of the given compiler. */
function templateOf(c: Compiler, text: string, path: string): Eval {
  const kind = extname(path) === '.mtt' ? 'mtt' : 'att';
  return compileText(c, parseTemplateFile(text, kind).parts, kind === 'mtt');
}

/** Read once per definition, when the function is first called. */
export function compileTemplateFile(c: Compiler, node: Node<'template-file'>): Eval {
  const path = c.text(node.path.parts);
  const known = new Map<string, Eval>();
  return async (env) => {
    const place = resolvePath(env, (await path(env)).text);
    const ready = known.get(place);
    if (ready) return await ready(env);
    const { text } = unwrap(await env.run.world.readFile(place, env.frame));
    const made = templateOf(c, text, place);
    known.set(place, made);
    return await made(env);
  };
}

export function compileModel(c: Compiler, node: Node<'model'>): Eval {
  const prompt = c.text(node.prompt.parts);
  const tier = node.options?.entries.get('tier') ?? node.options?.entries.get('model');
  const wanted = tier && c.expression(tier, 'value');
  return async (env) => {
    const request = { prompt: await prompt(env), tier: (await wanted?.(env))?.text, options: {} };
    const { data, meta, text } = unwrap(await env.run.world.model(request, env.frame));
    return makeValue(data, { descriptor: meta.descriptor, text });
  };
}
