// What a caller has to know of a tool before it calls it: its parameters as a schema, in words, and what
// it requires. Nothing is run.
import { getOwn, isObject, type Json, type JsonObject, setOwn } from '../../base/index.ts';
import type { Library, Tool, ToolItem } from '../../items/index.ts';
import { normalizeCapability } from '../../trust/index.ts';
import { inheritParameters, schemaOf } from './parameters.ts';

export interface ToolSignature {
  readonly id: string;
  readonly description: string;
  /** Of an object with everything that it may be given. */
  readonly schema: JsonObject;
  /** Each list is enough for some call: one list, or one for each action. */
  readonly requires: readonly (readonly string[])[];
  readonly isSigned: boolean;
}

/** With actions: what any of them takes, and which one is meant. */
function withActions(tool: Tool, below: readonly Tool[]): JsonObject {
  const common = [tool, ...below].map(({ parameters }) => parameters);
  if (tool.actions.length === 0) return schemaOf(inheritParameters(common));
  const optional = tool.actions.flatMap(({ parameters }) =>
    parameters.map((parameter) => ({ ...parameter, required: false })),
  );
  const names = tool.actions.map(({ name }) => name);
  const described = tool.actions.map(({ name, description }) => `${name}: ${description}`);
  const action = {
    name: 'action',
    type: 'string',
    required: true,
    enum: names,
    description: described.join('; ').slice(0, 500),
  };
  return schemaOf(inheritParameters([[action], optional, ...common]));
}

/** What a schema says in a form that holds no words: everything else is its author's. */
const KEYWORDS: ReadonlySet<string> = new Set(
  'type properties required enum const items prefixItems additionalProperties $defs definitions $ref anyOf oneOf allOf not if then else minimum maximum exclusiveMinimum exclusiveMaximum multipleOf minLength maxLength minItems maxItems uniqueItems minProperties maxProperties contains format dependentRequired dependentSchemas unevaluatedProperties unevaluatedItems'.split(
    ' ',
  ),
);
const TABLES = /^(?:properties|\$defs|definitions|dependentSchemas|dependentRequired)$/;
/** A name of a parameter, of a part, of a type or format: no place for a sentence. */
const PLAIN = /^[\w$.#/-]{1,64}$/;
const MAX_CHOICE = 64;
/** Many short ones make a sentence too, where they are no plain names. */
const MAX_WORDS = 256;
const isSentence = (value: Json): boolean => typeof value === 'string' && !PLAIN.test(value);

/** Choices are data that a caller has to give as they are, so long as they are short and can be seen. */
function areTold(choices: Json[]): boolean {
  const words = JSON.stringify(choices);
  return (
    !/[\p{C}\p{Default_Ignorable_Code_Point}]/u.test(words) &&
    choices.every((choice) => JSON.stringify(choice).length <= MAX_CHOICE) &&
    (words.length <= MAX_WORDS || !choices.some(isSentence))
  );
}

/** A schema without what its author says in words: plain names, types and bounds are left. */
function withoutWords(schema: Json): Json {
  if (Array.isArray(schema)) return schema.filter((one) => !isSentence(one)).map(withoutWords);
  if (!isObject(schema)) return schema;
  const plain: JsonObject = {};
  for (const [key, value] of Object.entries(schema)) {
    if (!KEYWORDS.has(key)) continue;
    if (key === 'enum' || key === 'const') {
      if (areTold(Array.isArray(value) ? value : [value])) setOwn(plain, key, value);
    } else if (!isSentence(value)) {
      setOwn(plain, key, TABLES.test(key) ? withPlainNames(value) : withoutWords(value));
    }
  }
  return plain;
}

function withPlainNames(table: Json): Json {
  const plain: JsonObject = {};
  for (const [name, schema] of Object.entries(isObject(table) ? table : {})) {
    if (PLAIN.test(name)) setOwn(plain, name, withoutWords(schema));
  }
  return plain;
}

/** A model is told of it before anything is labelled: what its server says is read with `load`. */
const TOLD = 'Tool of an MCP server; `load` shows what the server says of it';

/** Undefined for a tool that cannot be used as it is. */
export function signatureOf(library: Library, item: ToolItem): ToolSignature | undefined {
  const chain = library.chain(item.id);
  if (!chain.ok || library.configFaults(chain.output).length > 0) return undefined;
  const [tool, ...below] = chain.output.links.flatMap((link) => link.tool ?? []);
  if (!tool) return undefined;
  const common = below.flatMap(({ requires, handsOn }) => handsOn ?? requires);
  const own = tool.actions.map(({ requires }) => requires ?? tool.requires);
  return {
    id: item.id,
    ...(tool.tool_type === 'mcp_tool'
      ? { description: TOLD, schema: withoutWords(tool.input_schema ?? {}) as JsonObject }
      : { description: tool.description, schema: tool.input_schema ?? withActions(tool, below) }),
    requires: (own.length > 0 ? own : [tool.requires]).map((names) =>
      [...names, ...common].map(normalizeCapability),
    ),
    isSigned: item.signature.state !== 'unsigned',
  };
}

const MAX_CHOICES = 8;

function typeWord(schema: Json): string {
  const choices = getOwn(schema, 'enum');
  if (Array.isArray(choices) && choices.length <= MAX_CHOICES) {
    return choices.map((choice) => JSON.stringify(choice)).join('|');
  }
  const type = getOwn(schema, 'type');
  return typeof type === 'string' ? type : 'any';
}

/** `path: string, offset?: integer`, as short as that. */
export function parameterWords({ properties, required }: JsonObject): string {
  const needed = Array.isArray(required) ? required : [];
  const known: JsonObject = isObject(properties) ? properties : {};
  return Object.entries(known)
    .sort(([a], [b]) => Number(needed.includes(b)) - Number(needed.includes(a)))
    .map(([name, schema]) => `${name}${needed.includes(name) ? '' : '?'}: ${typeWord(schema)}`)
    .join(', ');
}

/** A schema that a provider takes: an object, with its fields. */
export function functionSchema(schema: JsonObject): JsonObject {
  const shown: JsonObject = { type: 'object', properties: {} };
  for (const [key, value] of Object.entries(schema)) setOwn(shown, key, value);
  return shown;
}
