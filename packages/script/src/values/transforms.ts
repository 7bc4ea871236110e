// Implements the built-in transformers: functions such as `@upper("a")` or `| @upper`. They are not
// operations: no guard judges them, and the marks of their input pass through.
import { type Failure, type Json, type Outcome, parseJson, plainText } from '@kernmantle/core/base';
import {
  addMarks,
  type Descriptor,
  elementOf,
  type MaybePromise,
  makeContainer,
  makeValue,
  type Value,
  withText,
} from '@kernmantle/core/flow';
import { raise } from '../fault.ts';
import { linesOf, trimBlankLines } from '../files/sections.ts';
import { parseJsonText } from './data.ts';
import {
  csvOfData,
  csvOfTable,
  findJson,
  parseRelaxed,
  rowsOfCsv,
  xmlOfData,
  xmlOfText,
} from './formats.ts';
import {
  absent,
  computed,
  isFileList,
  isStructure,
  keepOf,
  keysOf,
  lengthOf,
  ownMarks,
  readNull,
  typeName,
} from './kinds.ts';
import { byCodeUnit, sortList } from './methods.ts';
import { losesDigits, prettyJson, structureIn, textOf } from './text.ts';

const laidOut = (value: Value): Value =>
  isStructure(value.data) ? withText(value, prettyJson(value.data)) : value;

const parsed = (value: Value, data: Json): Value => {
  const { descriptor, origin } = value.meta;
  if (data === null) return readNull(descriptor, origin);
  return laidOut(makeValue(data, { descriptor, origin }));
};

/** Returns the reason of a parser without the words that all its messages begin with. */
const problemOf = ({ error: { detail } }: Failure): string =>
  plainText(detail['problem'] ?? detail.message);

function read(value: Value, parse: (text: string) => Outcome<Json>): Value {
  // Data was parsed earlier, so it passes unchanged.
  if (typeof value.data !== 'string') return laidOut(value);
  const text = value.data.trim();
  const outcome = parse(text);
  if (outcome.ok) return parsed(value, outcome.output);
  if (text.startsWith('```')) {
    raise('invalid_input', 'the text is fenced; `@parse.llm` reads the JSON inside');
  }
  const reason = problemOf(outcome);
  return raise('invalid_input', `the text is not JSON: ${text === '' ? 'it is empty' : reason}`);
}

/** Parses strict JSON first, then relaxed JSON. Fails with the message of the strict parser. */
function parseAny(text: string): Outcome<Json> {
  const strict = parseJson(text);
  // Prose and fenced blocks are not relaxed JSON.
  if (strict.ok || !/^[[{"'/]/.test(text)) return strict;
  const relaxed = parseRelaxed(text);
  return relaxed.ok ? relaxed : strict;
}

const parseValue = (value: Value): Value => read(value, parseAny);

const PARSE_VARIANTS: Readonly<Record<string, (value: Value) => Value>> = {
  strict: (value) => read(value, parseJson),
  loose: (value) => read(value, parseAny),
  llm(value) {
    if (typeof value.data !== 'string') return laidOut(value);
    const whole = parseJson(value.data);
    return parsed(value, whole.ok ? whole.output : (findJson(value.data) ?? null));
  },
  fromlist(value) {
    if (Array.isArray(value.data)) return laidOut(value);
    const lines = textOf(value)
      .split('\n')
      .map((line) => line.trim())
      .filter((line) => line !== '');
    return parsed(value, lines);
  },
};

interface TransformPort {
  /** Looks up a file by its path as written. */
  exists(path: string): MaybePromise<{ found: boolean; descriptor: Descriptor }>;
}

export interface Transformer {
  readonly name: string;

  call(values: readonly Value[], port: TransformPort): MaybePromise<Value>;
  /** Variants of `@parse` and `@json`, such as `.strict` and `.loose`. */
  readonly variants: ReadonlyMap<string, Transformer>;
}

/** Makes a transformer that computes data from its first argument, with the marks of that argument. */
const transform = (make: (value: Value) => Json) => (value: Value) =>
  computed(make(value), [value]);

function structureOf(value: Value): Json[] | { [key: string]: Json } | undefined {
  const data = typeof value.data === 'string' ? structureIn(value.data) : value.data;
  return data !== undefined && isStructure(data) ? data : undefined;
}

function pretty(value: Value): string {
  const data = structureOf(value);
  const isText = typeof value.data === 'string';
  const isLeft = data === undefined || (isText && losesDigits(textOf(value)));
  return isLeft ? textOf(value) : prettyJson(data);
}

function markdown(value: Value): string {
  const isData = isStructure(value.data) && !isFileList(value);
  return isData ? prettyJson(value.data) : trimBlankLines(linesOf(textOf(value))).join('\n');
}

function xml(value: Value): string {
  const data = isFileList(value) ? undefined : structureOf(value);
  return data === undefined ? xmlOfText(textOf(value)) : xmlOfData(data);
}

function csv(value: Value): string {
  const data = isFileList(value) ? undefined : structureOf(value);
  if (data !== undefined) return csvOfData(data);
  const text = textOf(value);
  return csvOfTable(text) ?? text;
}

/** Sorts lists by text, objects by key, and texts by line. */
function sort(value: Value): Value {
  if (Array.isArray(value.data)) return sortList(value);
  if (typeName(value) === 'object') {
    const keys = keysOf(value).toSorted(byCodeUnit);
    return makeContainer(new Map(keys.map((key) => [key, elementOf(value, key)])), ownMarks(value));
  }
  const lines = trimBlankLines(linesOf(textOf(value)));
  return computed(lines.toSorted(byCodeUnit).join('\n'), [value]);
}

const exists = transform(({ data }) => data !== null);

/** Uses the text of a value as a path and looks up the file. An error counts as a missing file. */
async function fileExists(value: Value, port: TransformPort): Promise<Value> {
  const answer = (isThere: boolean) => computed(isThere, [value]);
  if (isFileList(value)) return answer(lengthOf(value) > 0);
  const path = value.data === null ? '' : textOf(value).trim();
  if (path === '') return answer(false);
  try {
    const { found, descriptor } = await port.exists(path);
    return addMarks(answer(found), descriptor);
  } catch {
    return answer(false);
  }
}

/** Returns new data for a source. The source keeps its own text. */
function readAs(value: Value, data: Json): Value {
  const { descriptor, origin } = value.meta;
  return makeValue(data, {
    descriptor,
    origin: { ...origin, files: false },
    text: textOf(value),
  });
}

// Readers for `with { format }`, which parse the source of a pipeline.
const FORMATS: Readonly<Record<string, (value: Value) => Value>> = {
  text: (value) =>
    makeValue(textOf(value), { descriptor: value.meta.descriptor, origin: { format: 'text' } }),
  json(value) {
    const { data } = value;
    const outcome = typeof data === 'string' ? parseJson(data) : undefined;
    if (!outcome || outcome.ok) return parseJsonText(value);
    return raise('invalid_input', `the source is not JSON: ${problemOf(outcome)}`);
  },
  csv(value) {
    const rows = value.data === null ? [] : rowsOfCsv(textOf(value));
    if (!rows) return raise('invalid_input', 'the source is not CSV: a quote is not closed');
    return readAs(value, rows);
  },
  xml: (value) =>
    makeValue(xml(value), { descriptor: value.meta.descriptor, origin: { format: 'text' } }),
};

/** Returns the reader of a format. Its result has the marks of the format name, which may be secret. */
export function formatReader(format: Value): (value: Value) => Value {
  const word = textOf(format);
  const read = Object.hasOwn(FORMATS, word) ? FORMATS[word] : undefined;
  if (!read) {
    const hint = `use ${Object.keys(FORMATS)
      .map((one) => `"${one}"`)
      .join(', ')}`;
    return raise('invalid_input', `\`${word}\` is not a format`, { hint });
  }
  return (value) => addMarks(read(value), format.meta.descriptor);
}

const FUNCTIONS: Readonly<Record<string, Work>> = {
  pretty: transform(pretty),
  xml: transform(xml),
  csv: transform(csv),
  md: transform(markdown),
  upper: transform((value) => textOf(value).toUpperCase()),
  lower: transform((value) => textOf(value).toLowerCase()),
  trim: transform((value) => textOf(value).trim()),
  sort,
  typeof: transform(typeName),
  exists,
  fileExists,
  keep: keepOf,
  keepStructured: keepOf,
};

type Work = (value: Value, port: TransformPort) => MaybePromise<Value>;

function define(name: string, work: Work, variants: Record<string, Work> = {}): Transformer {
  const call: Transformer['call'] = ([value = absent()], port) => {
    try {
      return work(value, port);
    } catch (error) {
      if (!(error instanceof RangeError)) throw error;
      return raise('invalid_input', `the value is nested too deeply or too long for \`@${name}\``);
    }
  };
  const entries = Object.entries(variants).map(
    ([variant, inner]) => [variant, define(`${name}.${variant}`, inner)] as const,
  );
  return { name, call, variants: new Map(entries) };
}

/** Transformers by name. Each is also available under its name in capitals. */
export const TRANSFORMERS: ReadonlyMap<string, Transformer> = new Map(
  [
    ...Object.entries(FUNCTIONS).map(([name, work]) => define(name, work)),
    define('parse', parseValue, PARSE_VARIANTS),
    define('json', parseValue, PARSE_VARIANTS),
  ].flatMap((transformer) => [
    [transformer.name, transformer] as const,
    [transformer.name.toUpperCase(), transformer] as const,
  ]),
);
