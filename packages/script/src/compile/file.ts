// Compiles `<path # Section>`. The loaded value has the marks and facts of the file. Sections, definitions
// and templates over the content keep them.
import { basename, dirname, extname, relative } from 'node:path';
import {
  fail,
  type Json,
  type JsonObject,
  type Outcome,
  ok,
  parseJson,
  parseYaml,
  splitFrontMatter,
} from '@kernmantle/core/base';
import {
  addLabels,
  addMarks,
  type Descriptor,
  descriptorOfFault,
  type MaybePromise,
  makeContainer,
  makeValue,
  markFailure,
  mergeDescriptors,
  type Value,
  withOrigin,
} from '@kernmantle/core/flow';
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
import { judgeReading, unwrap } from '../run/operate.ts';
import { VariableScope } from '../run/scope.ts';
import type { NodeOf, SectionName } from '../syntax/ast.ts';
import { marksOf } from '../values/kinds.ts';
import { textOf } from '../values/text.ts';
import type { LoadedText } from '../world.ts';
import { walkStepsOf } from './reference.ts';

/** Returns the facts about a file for `.mx`. */
function fileFacts(path: string, text: string, root: string): JsonObject {
  const shortPath = relative(root, path);
  const folder = relative(root, dirname(path));
  return {
    file: path,
    filename: basename(path),
    relative: `./${shortPath}`,
    absolute: path,
    dirname: basename(dirname(path)),
    relativeDir: folder === '' ? '.' : `./${folder}`,
    absoluteDir: dirname(path),
    ext: extname(path).slice(1),
    fm: /\.(?:md|mld)$/.test(path) ? parseYaml(splitFrontMatter(text).yaml).value : null,
  };
}

/** Returns the content of a file, parsed if it is JSON. Fails on malformed JSON unless the file is one of many. */
export function contentOf(
  loaded: LoadedText,
  root: string,
  unlabelled: readonly string[] = [],
  isOneOfMany = false,
): Value {
  const { path, text, descriptor: own } = loaded;
  const descriptor = own.labels.length === 0 ? addLabels(own, unlabelled) : own;
  const read = dataIn(path, text);
  const reason = read?.ok === false ? read.error.detail.message : null;
  if (reason !== null && !isOneOfMany) {
    const message = `\`${basename(path)}\` is not valid JSON: ${reason}`;
    return raise('invalid_input', message, { file: path });
  }
  const origin = { ...fileFacts(path, text, root), parseError: reason };
  return read?.ok
    ? makeValue(read.output, { descriptor, text, origin })
    : makeValue(text, { descriptor, text, origin: { ...origin, loaded: true } });
}

/** Returns the parsed content of a `.json` or `.jsonl` file; `undefined` for other files. */
function dataIn(path: string, text: string): Outcome<Json> | undefined {
  const kind = extname(path).toLowerCase();
  if (kind === '.json') return parseJson(text);
  if (kind !== '.jsonl') return undefined;
  const rows: Json[] = [];
  for (const line of text.split('\n')) {
    if (line.trim() === '') continue;
    const row = parseJson(line);
    if (!row.ok) return row;
    rows.push(row.output);
  }
  return ok(rows);
}

function compileNames(c: Compiler, list: readonly SectionName[]) {
  const texts = list.map(({ name }) => c.text(name.parts));
  return async (env: Environment) => {
    const values = await evaluateAll(texts, env);
    const named = values.map(textOf);
    const names = list.map(({ isOptional }, at) => ({ name: named[at] ?? '', isOptional }));
    return { names, marks: marksOf(values) };
  };
}

function withFile(env: Environment, value: Value): Environment {
  const scope = new VariableScope('block', env.scope);
  scope.bind('<>', 'ambient', value);
  return { ...env, scope };
}

function headingsOf(value: Value, names: readonly string[], isOneOfMany: boolean): Value {
  const { descriptor, origin } = value.meta;
  if (!isOneOfMany) return makeValue([...names], { descriptor });
  const { filename: file = null, relative: shortPath = null, absolute = null } = origin;
  const record = { file, names: [...names], relative: shortPath, absolute };
  return makeValue(record, { descriptor });
}

/** Selects a part of a file; `undefined` if the file does not have it. */
type FilePart = (
  value: Value,
  env: Environment,
  isOneOfMany: boolean,
) => MaybePromise<Value | undefined>;

/** A selector with the marks of the section names. */
interface ChosenPart {
  readonly part: FilePart;
  readonly marks: Descriptor;
}

function compileSections(c: Compiler, node: NodeOf<'file'>): Eval<ChosenPart> {
  const { sections } = node;
  if (!sections) return () => ({ part: (value) => value, marks: marksOf([]) });
  const [include, exclude] = [compileNames(c, sections.include), compileNames(c, sections.exclude)];
  const heading = node.as && c.text(node.as.parts);
  const partOf =
    (chosen: Parameters<typeof selectSections>[1]): FilePart =>
    async (value, env, isOneOfMany) => {
      const found = selectSections(value.text, chosen);
      if (isOneOfMany && found.length === 0) return undefined;
      if (typeof found !== 'string') return headingsOf(value, found, isOneOfMany);
      const { descriptor } = value.meta;
      const origin = { ...value.meta.origin, loaded: true };
      const title = await heading?.(withFile(env, value));
      if (!title) return makeValue(found, { descriptor, text: found, origin });
      const text = renameSection(found, textOf(title));
      return addMarks(makeValue(text, { descriptor, text, origin }), title.meta.descriptor);
    };
  return async (env) => {
    const [included, excluded] = [await include(env), await exclude(env)];
    const part = partOf({ include: included.names, exclude: excluded.names, list: sections.list });
    return { part, marks: mergeDescriptors(included.marks, excluded.marks) };
  };
}

/** Compiles `as "…<>…"`, where `<>` is the file. With sections it is a heading. */
function compileAs(c: Compiler, node: NodeOf<'file'>): Walk {
  const { as, sections } = node;
  if (!as || (sections && sections.list === undefined)) return (value) => value;
  const evaluate = c.text(as.parts);
  return async (value, env) => {
    const { text, meta } = await evaluate(withFile(env, value));
    return addMarks(makeValue(text, { descriptor: meta.descriptor, text }), value.meta.descriptor);
  };
}

/** Few scripts use definitions, so the module is loaded when one does. */
function compileDefinitions({ definitions }: NodeOf<'file'>): Walk {
  if (!definitions) return (value) => value;
  return async (value) =>
    (await import('../files/definitions.ts')).selectDefinitions(value, definitions);
}

async function readText(path: string, env: Environment): Promise<Outcome<LoadedText>> {
  await judgeReading(path, env);
  await env.run.written();
  return await env.run.world.readFile(path, env.frame);
}

const contentIn = ({ run, frame }: Environment, loaded: LoadedText, isOneOfMany: boolean): Value =>
  contentOf(loaded, run.world.root, frame.policy.unlabelled, isOneOfMany);

/** The selector of a file's part, and the conversion of that part. */
interface FileForm {
  readonly part: FilePart;
  readonly shape: Walk;
}

/** Loads every file that matches, sorted by path. */
async function loadAll(pattern: string, env: Environment, form: FileForm): Promise<Value> {
  const found: Value[] = [];
  const without: Value[] = [];
  const { found: paths, descriptor } = unwrap(await env.run.world.glob(pattern, env.frame));
  for (const path of paths) {
    const content = contentIn(env, unwrap(await readText(path, env)), true);
    const part = await partIn(content, env, form.part, true);
    if (part) found.push(await form.shape(part, env));
    else without.push(content);
  }
  return makeContainer(found, marksOf(without), descriptor);
}

/** Returns the part of a file; `undefined` if the file has no such section. */
async function partIn(
  value: Value,
  env: Environment,
  part: FilePart,
  isOneOfMany: boolean,
): Promise<Value | undefined> {
  try {
    return await part(value, env, isOneOfMany);
  } catch (error) {
    const fault = toFault(error);
    if (fault.fault.code !== 'not_found') throw fault;
    return undefined;
  }
}

/** Fails if `as` would apply to several sections, because it is the heading of one. */
function refuseHeading({ as, sections }: NodeOf<'file'>): void {
  if (!as || !sections || sections.list !== undefined || sections.include.length === 1) return;
  raise('invalid_input', '`as` can rename only one section', {
    hint: 'load each section alone: `<a.md # A> as "## …"`',
  });
}

export function compileFile(c: Compiler, node: NodeOf<'file'>, reading: Reading): Eval {
  const path = c.text(node.path.parts);
  const definitions = compileDefinitions(node);
  const as = compileAs(c, node);
  const sections = compileSections(c, node);
  const shape: Walk = async (value, env) => as(await definitions(value, env), env);
  const isOfTexts = node.sections?.list === undefined || node.as !== undefined;
  const walk = walkStepsOf(c, node.steps, reading);
  return async (env) => {
    refuseHeading(node);
    const value = await path(env);
    const written = textOf(value);
    if (/^[a-z]+:\/\//i.test(written))
      raise('invalid_input', `\`<${written}>\` is a URL and cannot be loaded`, {
        hint: 'use `@tool("http/…")`',
      });
    const place = resolvePath(env, written);
    const { part, marks: chosenBy } = await sections(env);
    const marks = mergeDescriptors(value.meta.descriptor, chosenBy);
    const form: FileForm = { part, shape };
    const loaded = /[*?[{]/.test(written)
      ? withOrigin(await loadAll(place, env, form), isOfTexts ? { files: true } : {})
      : await loadOne(place, addMarks(value, chosenBy), node, env, form);
    const all = mergeDescriptors(marks, loaded.meta.elements?.own ?? marks);
    return await walk(addMarks(loaded, all), env);
  };
}

async function loadOne(
  place: string,
  written: Value,
  node: NodeOf<'file'>,
  env: Environment,
  { part, shape }: FileForm,
): Promise<Value> {
  try {
    const outcome = await readText(place, env);
    if (outcome.ok) {
      const content = contentIn(env, outcome.output, false);
      const found = await (node.isOptional
        ? partIn(content, env, part, false)
        : part(content, env, false));
      const { descriptor } = content.meta;
      return found ? await shape(found, env) : makeValue(null, { descriptor });
    }
    if (outcome.error.code !== 'not_found') return unwrap(outcome);
    const marks = descriptorOfFault(outcome.error);
    if (node.isOptional) return makeValue(null, { descriptor: marks });
    const name = textOf(written);
    const fault = fail('not_found', `file \`${name}\` not found`, {
      file: place,
      hint: `write \`<${name}>?\` if it may be missing`,
    });
    return unwrap(markFailure(fault, marks));
  } catch (error) {
    // The name of the missing file reveals the values that the path was built from.
    throw toFault(error).under(written.meta.descriptor);
  }
}
