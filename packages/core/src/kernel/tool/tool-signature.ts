// Computes the signature of a tool for its callers: its parameters as a schema and as text, and the
// capabilities that it requires. Nothing runs.
import { getOwn, isObject, type Json, type JsonObject, setOwn } from '../../base/index.ts';
import type { Library, Tool, ToolItem } from '../../items/index.ts';
import { normalizeCapability } from '../../trust/index.ts';
import { inheritParameters, schemaOf } from './parameters.ts';

export interface ToolSignature {
  readonly id: string;
  readonly description: string;
  /** Schema of an object with all parameters. */
  readonly schema: JsonObject;
  /** Each list is enough for some call: one list, or one for each action. */
  readonly requires: readonly (readonly string[])[];
  readonly isSigned: boolean;
}

/** Merges the parameters of all actions and adds `action`. */
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

/** Keywords of a schema that contain no free text. The author writes everything else. */
const KEYWORDS: ReadonlySet<string> = new Set(
  'type properties required enum const items prefixItems additionalProperties $defs definitions $ref anyOf oneOf allOf not if then else minimum maximum exclusiveMinimum exclusiveMaximum multipleOf minLength maxLength minItems maxItems uniqueItems minProperties maxProperties contains format dependentRequired dependentSchemas unevaluatedProperties unevaluatedItems'.split(
    ' ',
  ),
);
const TABLES = /^(?:properties|\$defs|definitions|dependentSchemas|dependentRequired)$/;
/** A name of a parameter, type or format, which is too short for a sentence. */
const PLAIN = /^[\w$.#/-]{1,64}$/;
const MAX_CHOICE = 64;
/** Many short names make a sentence too, so their total length is bounded. */
const MAX_WORDS = 256;
const isSentence = (value: Json): boolean => typeof value === 'string' && !PLAIN.test(value);

/** True for enumerations that a model may see: short, printable values that a caller must pass unchanged. */
function mayBeShown(choices: Json[]): boolean {
  const words = JSON.stringify(choices);
  return (
    !/[\p{C}\p{Default_Ignorable_Code_Point}]/u.test(words) &&
    choices.every((choice) => JSON.stringify(choice).length <= MAX_CHOICE) &&
    (words.length <= MAX_WORDS || !choices.some(isSentence))
  );
}

/** Removes the author's texts from a schema. Plain names, types and bounds stay. */
function withoutWords(schema: Json): Json {
  if (Array.isArray(schema)) return schema.filter((one) => !isSentence(one)).map(withoutWords);
  if (!isObject(schema)) return schema;
  const plain: JsonObject = {};
  for (const [key, value] of Object.entries(schema)) {
    if (!KEYWORDS.has(key)) continue;
    if (key === 'enum' || key === 'const') {
      if (mayBeShown(Array.isArray(value) ? value : [value])) setOwn(plain, key, value);
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

/** Description for a model before anything is labelled. The server's own description is read with `load`. */
const MCP_SUMMARY = 'Tool of an MCP server; `load` shows its description';

/** Returns undefined for a tool that cannot be used. */
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
      ? { description: MCP_SUMMARY, schema: withoutWords(tool.input_schema ?? {}) as JsonObject }
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

/** Returns a short text such as `path: string, offset?: integer`. */
export function parameterWords({ properties, required }: JsonObject): string {
  const needed = Array.isArray(required) ? required : [];
  const declared: JsonObject = isObject(properties) ? properties : {};
  return Object.entries(declared)
    .sort(([a], [b]) => Number(needed.includes(b)) - Number(needed.includes(a)))
    .map(([name, schema]) => `${name}${needed.includes(name) ? '' : '?'}: ${typeWord(schema)}`)
    .join(', ');
}

/** Returns a schema that a provider accepts: an object with its fields. */
export function functionSchema(schema: JsonObject): JsonObject {
  const result: JsonObject = { type: 'object', properties: {} };
  for (const [key, value] of Object.entries(schema)) setOwn(result, key, value);
  return result;
}
