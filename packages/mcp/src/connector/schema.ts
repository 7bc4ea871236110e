// Translates schemas of a server for the kernel's own checks. A keyword that only the server checks is
// named in a `$comment` in its place.
import { getOwn, isObject, type Json, type JsonObject, setOwn } from '@kernmantle/core/base';
import { shownText } from './texts.ts';

const MAX_WORDS = 1000;
/** Keys whose members are schemas by name, so those names are not keywords. */
const TABLES: ReadonlySet<string> = new Set([
  'properties',
  '$defs',
  'definitions',
  'dependentSchemas',
]);
/** Keys whose values are data of the server and stay unchanged. */
const DATA: ReadonlySet<string> = new Set(['enum', 'const', 'default', 'examples', 'required']);
const WORDS: ReadonlySet<string> = new Set(['description', 'title', '$comment']);
/** Keys that are removed, because an untrusted regular expression can block a process. */
const UNCHECKED: ReadonlySet<string> = new Set(['pattern', 'patternProperties', 'propertyNames']);

const isFar = (key: string, value: Json): boolean =>
  /^\$(?:ref|dynamicRef|recursiveRef)$/.test(key) &&
  typeof value === 'string' &&
  !value.startsWith('#');

function cleanTable(table: JsonObject): JsonObject {
  const clean: JsonObject = {};
  for (const [name, schema] of Object.entries(table)) setOwn(clean, name, cleanSchema(schema));
  return clean;
}

/** Translates the older notation of a list with fixed positions. */
function cleanItems(schema: JsonObject): JsonObject {
  const { items, additionalItems, ...rest } = schema;
  if (!Array.isArray(items)) return schema;
  return {
    ...rest,
    prefixItems: items,
    ...(additionalItems === undefined ? {} : { items: additionalItems }),
  };
}

function cleanSchema(schema: Json): Json {
  if (Array.isArray(schema)) return schema.map(cleanSchema);
  if (!isObject(schema)) return schema;
  const clean: JsonObject = {};
  const unchecked: string[] = [];
  for (const [key, value] of Object.entries(cleanItems(schema))) {
    if (UNCHECKED.has(key) || isFar(key, value)) unchecked.push(key);
    else if (key === '$id' || key === '$schema' || key === '$anchor') continue;
    else if (DATA.has(key)) setOwn(clean, key, value);
    else if (TABLES.has(key) && isObject(value)) setOwn(clean, key, cleanTable(value));
    else if (WORDS.has(key))
      setOwn(clean, key, typeof value === 'string' ? shownText(value, MAX_WORDS) : '');
    else setOwn(clean, key, cleanSchema(value));
  }
  if (unchecked.length > 0) clean.$comment = `only the server checks: ${unchecked.join(', ')}`;
  return clean;
}

/** Resolves a reference inside the same schema. Returns undefined for any other reference. */
function resolved(schema: JsonObject, root: JsonObject): Json | undefined {
  const ref = getOwn(schema, '$ref');
  const path = typeof ref === 'string' ? /^#((?:\/[\w$.-]+)*)$/.exec(ref)?.[1] : undefined;
  let at: Json | undefined = path === undefined ? undefined : root;
  for (const step of path?.split('/').slice(1) ?? []) at = getOwn(at, step);
  return at;
}

/** Returns all property names that a part of the schema declares for the object itself. */
function declaredNames(schema: Json | undefined, root: JsonObject, visited: Set<Json>): string[] {
  if (!isObject(schema) || visited.has(schema)) return [];
  visited.add(schema);
  const { properties, allOf, anyOf, oneOf, dependentSchemas } = schema;
  const parts = [allOf, anyOf, oneOf].flatMap((list) => (Array.isArray(list) ? list : []));
  const more = [schema.if, schema.then, schema.else, resolved(schema, root)];
  const tables = isObject(dependentSchemas) ? Object.values(dependentSchemas) : [];
  return [
    ...Object.keys(isObject(properties) ? properties : {}),
    ...[...parts, ...more, ...tables].flatMap((part) => declaredNames(part, root, visited)),
  ];
}

/** Returns the schema of the parameters. Undeclared names are refused by default. */
export function inputSchema(source: JsonObject): JsonObject {
  const schema = cleanSchema(source) as JsonObject;
  const own = isObject(schema.properties) ? schema.properties : {};
  const properties: JsonObject = {};
  for (const name of declaredNames(schema, schema, new Set())) setOwn(properties, name, {});
  for (const [name, value] of Object.entries(own)) setOwn(properties, name, value);
  const isOpen = 'additionalProperties' in schema || 'patternProperties' in source;
  const additional = 'patternProperties' in source ? { additionalProperties: true } : {};
  return {
    ...schema,
    type: 'object',
    properties,
    ...(isOpen ? additional : { additionalProperties: false }),
  };
}

function moveRefs(schema: Json, to: string): Json {
  if (Array.isArray(schema)) return schema.map((one) => moveRefs(one, to));
  if (!isObject(schema)) return schema;
  const moved: JsonObject = {};
  for (const [key, value] of Object.entries(schema)) {
    const isRef = key === '$ref' && typeof value === 'string' && value.startsWith('#');
    setOwn(moved, key, isRef ? `${to}${value.slice(1)}` : moveRefs(value, to));
  }
  return moved;
}

/** Returns the schema of the tool's answer, which contains the server's answer as `structured`. */
export function outputSchema(source: Json | undefined): JsonObject | undefined {
  if (!isObject(source)) return undefined;
  const structured = moveRefs(cleanSchema(source), '#/properties/structured');
  return { type: 'object', properties: { structured }, required: ['structured'] };
}
