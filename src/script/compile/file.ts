// `<path # Section>`: loading files. What is loaded carries the file's marks and facts; sections,
// definitions and templates over the content keep them.
import { basename, dirname, extname, relative } from 'node:path';
import {
  fail,
  type Json,
  type JsonObject,
  type Outcome,
  parseJson,
  parseYaml,
  splitFrontMatter,
} from '../../base/index.ts';
import {
  addLabels,
  addMarks,
  childFrame,
  descriptorOfFault,
  makeContainer,
  makeValue,
  markFailure,
  mergeDescriptors,
  type Operation,
  type Value,
} from '../../flow/index.ts';
import { raise, toFault } from '../fault.ts';
import { renameSection, selectSections } from '../files/sections.ts';
import {
  type Compiler,
  type Environment,
  type Eval,
  evaluateAll,
  type Reading,
  resolvePath,
  type Walk,
} from '../run/environment.ts';
import { operate, TIERS, unwrap } from '../run/operate.ts';
import { VariableScope } from '../run/scope.ts';
import type { NodeOf, SectionName } from '../syntax/ast.ts';
import { marksOf, withOrigin } from '../values/kinds.ts';
import { textOf } from '../values/text.ts';
import type { LoadedText } from '../world.ts';
import { walkStepsOf } from './reference.ts';

/** Facts about a file, as `.mx` shows them. */
function fileFacts(path: string, text: string, root: string): JsonObject {
  const shown = relative(root, path);
  const folder = relative(root, dirname(path));
  return {
    file: path,
    filename: basename(path),
    relative: `./${shown}`,
    absolute: path,
    dirname: basename(dirname(path)),
    relativeDir: folder === '' ? '.' : `./${folder}`,
    absoluteDir: dirname(path),
    ext: extname(path).slice(1),
    fm: /\.(?:md|mld)$/.test(path) ? parseYaml(splitFrontMatter(text).yaml).value : null,
  };
}

/** JSON becomes data that keeps its text; everything else is text. */
export function contentOf(
  loaded: LoadedText,
  root: string,
  unlabelled: readonly string[] = [],
): Value {
  const { path, text, descriptor: own } = loaded;
  const descriptor = own.labels.length === 0 ? addLabels(own, unlabelled) : own;
  const origin = fileFacts(path, text, root);
  return makeValue(dataIn(path, text) ?? text, { descriptor, text, origin });
}

function dataIn(path: string, text: string): Json | undefined {
  const kind = extname(path).toLowerCase();
  if (kind === '.json') return readJson(text, path);
  if (kind !== '.jsonl') return undefined;
  return text
    .split('\n')
    .filter((line) => line.trim() !== '')
    .map((line) => readJson(line, path));
}

function readJson(text: string, path: string): Json {
  const parsed = parseJson(text);
  if (parsed.ok) return parsed.output;
  const message = `\`${basename(path)}\` is no valid JSON: ${parsed.error.detail.message}`;
  return raise('invalid_input', message, { file: path });
}

function compileNames(c: Compiler, list: readonly SectionName[]) {
  const texts = list.map(({ name }) => c.text(name.parts));
  return async (env: Environment) => {
    const names = (await evaluateAll(texts, env)).map(textOf);
    return list.map(({ isOptional }, at) => ({ name: names[at] ?? '', isOptional }));
  };
}

function compileSections(c: Compiler, node: NodeOf<'file'>): Walk {
  const { sections } = node;
  if (!sections) return (value) => value;
  const [include, exclude] = [compileNames(c, sections.include), compileNames(c, sections.exclude)];
  const heading = node.as && c.text(node.as.parts);
  return async (value, env) => {
    const found = selectSections(value.text, {
      include: await include(env),
      exclude: await exclude(env),
      list: sections.list,
    });
    const { descriptor, origin } = value.meta;
    if (typeof found !== 'string') return makeValue([...found], { descriptor });
    const title = await heading?.(env);
    if (!title) return makeValue(found, { descriptor, text: found, origin });
    const text = renameSection(found, textOf(title));
    return addMarks(makeValue(text, { descriptor, text, origin }), title.meta.descriptor);
  };
}

/** `as "…<>…"`: `<>` is the file. */
function compileAs(c: Compiler, node: NodeOf<'file'>): Walk {
  const { as, sections } = node;
  if (!as || sections) return (value) => value;
  const evaluate = c.text(as.parts);
  return async (value, env) => {
    const scope = new VariableScope('block', env.scope);
    scope.bind('<>', 'ambient', value);
    const { text, meta } = await evaluate({ ...env, scope });
    return addMarks(makeValue(text, { descriptor: meta.descriptor, text }), value.meta.descriptor);
  };
}

/** An extra that few scripts need, so it is loaded when one does. */
function compileDefinitions({ definitions }: NodeOf<'file'>): Walk {
  if (!definitions) return (value) => value;
  return async (value) =>
    (await import('../files/definitions.ts')).selectDefinitions(value, definitions);
}

const LOAD: Operation = {
  type: 'file',
  name: '',
  opLabels: [],
  retryOwner: false,
  tier: TIERS.read,
};

/** Loading is no operation of the language; who speaks of files from outside is asked all the same. */
async function readText(path: string, env: Environment): Promise<Outcome<LoadedText>> {
  const { guards, policy, held, influence } = env.frame;
  const isJudged = guards.locked.list.length > 0 || policy.mayObject(LOAD, held, [], influence);
  if (isJudged || env.run.policies.length > 0) {
    const frame = childFrame(env.frame, { selection: { only: [] } });
    await operate({ ...env, frame }, { ...LOAD, target: path }, [], () => makeValue(null));
  }
  await env.run.written();
  return await env.run.world.readFile(path, env.frame);
}

const contentIn = ({ run, frame }: Environment, loaded: LoadedText): Value =>
  contentOf(loaded, run.world.root, frame.policy.unlabelled);

/** Every match, sorted by path; their texts are joined where a text is wanted. */
async function loadAll(pattern: string, env: Environment, shape: Walk): Promise<Value> {
  const values: Value[] = [];
  const { found: paths, descriptor } = unwrap(await env.run.world.glob(pattern, env.frame));
  for (const path of paths)
    values.push(await orNothing(contentIn(env, unwrap(await readText(path, env))), env, shape));
  const missing = values.filter(({ data }) => data === null);
  const found = values.filter(({ data }) => data !== null);
  return withOrigin(makeContainer(found, marksOf(missing), descriptor), { files: true });
}

/** Null where the file has no such section. */
async function orNothing(value: Value, env: Environment, shape: Walk): Promise<Value> {
  try {
    return await shape(value, env);
  } catch (error) {
    const fault = toFault(error);
    if (fault.fault.code !== 'not_found') throw fault;
    return makeValue(null, { descriptor: value.meta.descriptor });
  }
}

export function compileFile(c: Compiler, node: NodeOf<'file'>, reading: Reading): Eval {
  const path = c.text(node.path.parts);
  const sections = compileSections(c, node);
  const definitions = compileDefinitions(node);
  const as = compileAs(c, node);
  const shape: Walk = async (value, env) =>
    as(await definitions(await sections(value, env), env), env);
  const walk = walkStepsOf(c, node.steps, reading);
  return async (env) => {
    const value = await path(env);
    const written = textOf(value);
    if (/^[a-z]+:\/\//i.test(written))
      raise('invalid_input', `\`<${written}>\`: addresses cannot be loaded here`, {
        hint: 'use `@tool("http/…")`',
      });
    const place = resolvePath(env, written);
    const marks = value.meta.descriptor;
    const loaded = /[*?[{]/.test(written)
      ? await loadAll(place, env, shape)
      : await loadOne(place, value, node, env, shape);
    const all = mergeDescriptors(marks, loaded.meta.elements?.own ?? marks);
    return await walk(addMarks(loaded, all), env);
  };
}

async function loadOne(
  place: string,
  written: Value,
  node: NodeOf<'file'>,
  env: Environment,
  shape: Walk,
): Promise<Value> {
  try {
    const outcome = await readText(place, env);
    if (outcome.ok) {
      const content = contentIn(env, outcome.output);
      return await (node.isOptional ? orNothing(content, env, shape) : shape(content, env));
    }
    if (outcome.error.code !== 'not_found') return unwrap(outcome);
    const marks = descriptorOfFault(outcome.error);
    if (node.isOptional) return makeValue(null, { descriptor: marks });
    const name = textOf(written);
    const fault = fail('not_found', `there is no file \`${name}\``, {
      file: place,
      hint: `write \`<${name}>?\` if it may be missing`,
    });
    return unwrap(markFailure(fault, marks));
  } catch (error) {
    // Which file is missing says what the path was made of.
    throw toFault(error).under(written.meta.descriptor);
  }
}
