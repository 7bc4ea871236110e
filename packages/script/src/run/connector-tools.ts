// Implements `import tools … from mcp "NAME"`: the tools of a connector as functions. A call is the
// operation `tool` with the item's id, as with `@tool`. Arguments are passed by position, texts are
// converted to the types of the schema, and the result has no protocol envelope.
import {
  getOwn,
  isObject,
  type Json,
  type JsonObject,
  lastSegment,
  parseJson,
} from '@kernmantle/core/base';
import { addMarks, elementOf, makeValue, type Value } from '@kernmantle/core/flow';
import type { ConnectorTool } from '@kernmantle/core/items';
import { raise } from '../fault.ts';
import { camelCased } from '../syntax/outline.ts';
import { parseJsonText } from '../values/data.ts';
import {
  computed,
  elementsOf,
  entriesOf,
  isAbsent,
  isStructure,
  makeFunction,
  numericOf,
} from '../values/kinds.ts';
import { textOf } from '../values/text.ts';
import {
  type Environment,
  Executable,
  type Exports,
  evaluateAll,
  type ScriptCall,
} from './environment.ts';
import { performTool } from './names.ts';
import { unwrap } from './operate.ts';

const MOST_REFS = 16;

/** Resolves a reference inside of the same schema. */
function resolveReference(schema: Json | undefined, root: JsonObject, depth = 0): JsonObject {
  if (!isObject(schema)) return {};
  const ref = getOwn(schema, '$ref');
  if (typeof ref !== 'string' || !ref.startsWith('#/') || depth > MOST_REFS) return schema;
  let at: Json | undefined = root;
  for (const step of ref.slice(2).split('/')) at = getOwn(at, step);
  return resolveReference(at, root, depth + 1);
}

function typeOfData(data: Json): string {
  if (data === null) return 'null';
  return Array.isArray(data) ? 'array' : typeof data;
}

const listIn = (schema: JsonObject, key: string): readonly Json[] | undefined => {
  const list = getOwn(schema, key);
  return Array.isArray(list) ? list : undefined;
};

/** Returns the types that a schema accepts; `any` if it does not restrict them. */
function typesIn(schema: Json | undefined, root: JsonObject, depth = 0): ReadonlySet<string> {
  const own = resolveReference(schema, root);
  const { type } = own;
  if (typeof type === 'string') return new Set([type]);
  if (Array.isArray(type)) return new Set(type.map(String));
  const values = 'const' in own ? [own.const ?? null] : listIn(own, 'enum');
  if (values) return new Set(values.map(typeOfData));
  const branches = listIn(own, 'anyOf') ?? listIn(own, 'oneOf');
  if (!branches || depth > MOST_REFS) return new Set(['any']);
  return new Set(branches.flatMap((branch) => [...typesIn(branch, root, depth + 1)]));
}

/** Converts a text to a type of the schema; `undefined` if it does not match. */
function readAs(text: string, schema: Json | undefined, root: JsonObject): Json | undefined {
  const types = typesIn(schema, root);
  if (types.has('string') || types.has('any')) return text;
  const number = numericOf(text);
  if (number !== undefined && types.has('number')) return number;
  if (Number.isInteger(number) && types.has('integer')) return number;
  if (types.has('boolean') && /^(?:true|false)$/.test(text.trim())) return text.trim() === 'true';
  const parsed = parseJson(text);
  if (types.has('object') && parsed.ok && isObject(parsed.output)) return parsed.output;
  if (!types.has('array')) return undefined;
  if (parsed.ok && Array.isArray(parsed.output)) return parsed.output;
  const element = readAs(text, resolveReference(schema, root).items, root);
  return element === undefined ? undefined : [element];
}

/** Converts an argument. A value that does not match stays unchanged, and the tool refuses it. */
function convertArgument(value: Value, schema: Json | undefined, root: JsonObject): Value {
  if (typeof value.data !== 'string') return value;
  const read = readAs(value.data, schema, root);
  return read === undefined || read === value.data ? value : computed(read, [value]);
}

interface Callee {
  readonly tool: ConnectorTool;
  /** Names of the tool's properties in the order of the schema. */
  readonly parameters: readonly string[];
  readonly names: readonly string[];
}

/** True if the only argument is an object with the arguments by name, unless the tool takes one object. */
function isByName({ parameters, tool: { schema } }: Callee, values: readonly Value[]): boolean {
  const [only, ...others] = values;
  const isObjectAlone =
    only && others.length === 0 && isObject(only.data) && isStructure(only.data);
  if (!isObjectAlone) return false;
  const [first = ''] = parameters;
  const own = getOwn(getOwn(schema, 'properties'), first);
  return parameters.length !== 1 || !typesIn(own, schema).has('object');
}

function argumentsOf(callee: Callee, values: readonly Value[], isStage: boolean) {
  const { parameters, tool, names } = callee;
  const properties = getOwn(tool.schema, 'properties');
  const fit = (name: string, value: Value): readonly [string, Value] => [
    name,
    convertArgument(value, getOwn(properties, name), tool.schema),
  ];
  const [first] = values;
  if (first && isByName(callee, values))
    return entriesOf(first).map(([name, one]) => fit(name, one));
  const taken = isStage && parameters.length === 0 ? [] : values;
  if (taken.length > parameters.length) {
    const [name = ''] = names;
    const list = parameters.length === 0 ? 'none' : parameters.join(', ');
    return raise(
      'invalid_input',
      `\`@${name}\` takes fewer arguments than ${taken.length}; its parameters are ${list}`,
      {
        hint: 'to pass arguments by name, pass one object',
      },
    );
  }
  return taken.flatMap((value, at) => (isAbsent(value) ? [] : [fit(parameters[at] ?? '', value)]));
}

/** Returns the result of a tool: structured content, or its text as JSON if possible, or the content. */
function answerOf(output: Value): Value {
  if (!isObject(output.data) || !Array.isArray(output.data.content)) return output;
  if (output.data.structured !== undefined) return elementOf(output, 'structured');
  const content = elementOf(output, 'content');
  const texts = elementsOf(content).map((block) =>
    getOwn(block.data, 'type') === 'text' ? elementOf(block, 'text') : undefined,
  );
  const present = texts.filter((text) => text !== undefined);
  if (present.length < texts.length) return content;
  const [only, ...others] = present;
  if (!only) return makeValue(null, { descriptor: content.meta.descriptor });
  return parseJsonText(
    others.length === 0 ? only : computed(present.map(textOf).join('\n'), present),
  );
}

function functionOf(callee: Callee, name: string): Value {
  const { tool, parameters, names } = callee;
  const call: ScriptCall = async (values, { env, at, isStage }) => {
    const entries = argumentsOf(callee, await evaluateAll(values, env), isStage);
    return answerOf(await performTool(tool.id, entries, { env, at }, names));
  };
  const signature = { name, parameters, labels: [], bodyKind: 'tool', source: undefined };
  return makeFunction(new Executable(signature, { call, refused: undefined }));
}

/** Returns each tool under its file and server names, and in camel case if no other tool has that. */
function namedTools(tools: readonly ConnectorTool[]): ReadonlyMap<string, Value> {
  const callees = tools.map((tool): Callee => {
    const own = [...new Set([lastSegment(tool.id), tool.name])];
    const properties = getOwn(tool.schema, 'properties');
    const parameters = isObject(properties) ? Object.keys(properties) : [];
    return { tool, parameters, names: [...new Set([...own, ...own.map(camelCased)])] };
  });
  const functions = new Map<string, Value>();
  const owners = Map.groupBy(
    callees.flatMap((callee) => callee.names.map((name) => ({ name, callee }))),
    ({ name }) => name,
  );
  for (const [name, claims] of owners) {
    const exact = claims.find(({ callee: { tool } }) => lastSegment(tool.id) === name);
    const chosen = exact ?? (claims.length === 1 ? claims[0] : undefined);
    if (chosen) functions.set(name, functionOf(chosen.callee, name));
  }
  return functions;
}

export async function toolExports(source: Value, env: Environment): Promise<Exports> {
  const name = textOf(source).trim();
  const { world } = env.run;
  const listed = await world.connector?.(name, env.frame);
  if (!listed) return raise('not_found', `connector \`${name}\` cannot be used here`);
  const names = new Map(
    Array.from(namedTools(unwrap(listed)), ([key, tool]) => [
      key,
      addMarks(tool, source.meta.descriptor),
    ]),
  );
  return { names, frontMatter: makeValue(null), path: `mcp ${name}` };
}
