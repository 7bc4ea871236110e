// Renames the cases by a seed: prompts, calls, answers, goals and metadata use other names
// consistently. A figure that is equal under several seeds does not depend on the names.
import { isObject, type Json, type JsonObject, setOwn } from '@kernmantle/core/base';
import type { Cases, RecordedCall, Suite, SuiteTool } from './cases.ts';
import type { Metadata, ToolFacts } from './metadata.ts';

/** Returns a generator of numbers below a bound. The same seed gives the same numbers. */
function createDice(seed: number): (below: number) => number {
  let state = seed >>> 0;
  return (below) => {
    state = (state + 0x6d2b79f5) >>> 0;
    let mixed = Math.imul(state ^ (state >>> 15), state | 1);
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61);
    return ((mixed ^ (mixed >>> 14)) >>> 0) % below;
  };
}

const LETTERS = 'abcdefghijklmnopqrstuvwxyz';
/** Ordinary words and words that give an address its form. They are not renamed. */
const UNCHANGED: ReadonlySet<string> = new Set(
  'www http https com org net edu txt csv pdf the and for with from true false null none'.split(
    ' ',
  ),
);

/** Returns a word of the same form: letters for letters, digits for digits. */
function wordLike(word: string, dice: (below: number) => number): string {
  return Array.from(word)
    .map((sign) => {
      if (/\d/.test(sign)) return String(dice(10));
      const letter = LETTERS[dice(LETTERS.length)] ?? 'x';
      return /[A-Z]/.test(sign) ? letter.toUpperCase() : /[a-z]/.test(sign) ? letter : sign;
    })
    .join('');
}

type Rename = (word: string) => string;

/** Maps each word to one other name, ignoring case. Two words never get the same name. */
function createNames(dice: (below: number) => number, taken: ReadonlySet<string>): Rename {
  const names = new Map<string, string>();
  const used = new Set(taken);
  return (word) => {
    const key = word.toLowerCase();
    let name = names.get(key);
    for (let tries = 0; name === undefined; tries += 1) {
      const candidate = wordLike(key, dice);
      if (used.has(candidate) && tries < 100) continue;
      used.add(candidate);
      names.set(key, candidate);
      name = candidate;
    }
    return Array.from(word)
      .map((sign, at) => (/[A-Z]/.test(sign) ? name[at]?.toUpperCase() : name[at]))
      .join('');
  };
}

function* textsIn(value: Json): Generator<string> {
  if (typeof value === 'string') yield value;
  else if (Array.isArray(value)) for (const item of value) yield* textsIn(item);
  else if (isObject(value)) for (const item of Object.values(value)) yield* textsIn(item);
}

function* fieldsIn(value: Json): Generator<string> {
  if (Array.isArray(value)) for (const item of value) yield* fieldsIn(item);
  else if (isObject(value)) {
    for (const [name, item] of Object.entries(value)) {
      yield name;
      yield* fieldsIn(item);
    }
  }
}

const callsOf = ({ tasks, injections }: Suite): RecordedCall[] =>
  [...tasks, ...injections].flatMap(({ calls }) => calls);

const WORD = /[A-Za-z0-9]+/g;
const isName = (word: string): boolean =>
  word.length > 2 && /[A-Za-z]/.test(word) && !UNCHANGED.has(word.toLowerCase());

/** Returns the words of values without spaces: names, addresses, accounts, files. */
function namedWords(suites: readonly Suite[], marks: RegExp): Set<string> {
  const words = new Set<string>();
  for (const call of suites.flatMap(callsOf)) {
    for (const text of [...textsIn(call.args), ...textsIn(call.result)]) {
      if (text.length > 80 || /\s/.test(text.replace(marks, '').trim())) continue;
      for (const [word] of text.replace(marks, '').matchAll(WORD)) {
        if (isName(word)) words.add(word.toLowerCase());
      }
    }
  }
  return words;
}

/** Renames a value: its field names by `field`, its texts by `change`. */
function renamed(value: Json, field: Rename, change: Rename): Json {
  if (typeof value === 'string') return change(value);
  if (Array.isArray(value)) return value.map((item) => renamed(item, field, change));
  if (!isObject(value)) return value;
  const result: JsonObject = {};
  for (const [name, item] of Object.entries(value)) {
    setOwn(result, field(name), renamed(item, field, change));
  }
  return result;
}

const renamedObject = (value: JsonObject, field: Rename, change: Rename): JsonObject => {
  const result = renamed(value, field, change);
  return isObject(result) ? result : {};
};

function renamedTool(tool: SuiteTool, field: Rename, change: Rename): SuiteTool {
  const { properties, required, ...schema } = tool.parameters;
  const names = isObject(properties) ? properties : {};
  const parameters: JsonObject = { ...schema, properties: {} };
  const inner: JsonObject = {};
  for (const [name, one] of Object.entries(names)) setOwn(inner, field(name), one);
  parameters.properties = inner;
  if (Array.isArray(required)) {
    parameters.required = required.map((name) => (typeof name === 'string' ? field(name) : name));
  }
  return { ...tool, description: change(tool.description), parameters };
}

const keysBy = <T>(table: Readonly<Record<string, T>>, change: Rename): Record<string, T> =>
  Object.fromEntries(Object.entries(table).map(([name, one]) => [change(name), one]));

/** Names that select a whole answer. They are not fields, so they are not renamed. */
const WHOLE: ReadonlySet<string> = new Set(['result', '*', '$']);

function renamedFacts(facts: Partial<ToolFacts>, field: Rename): Partial<ToolFacts> {
  const inResult: Rename = (name) => (WHOLE.has(name) ? name : field(name));
  const { parameters, result } = facts;
  return {
    ...facts,
    ...(parameters && { parameters: keysBy(parameters, field) }),
    ...(result && {
      result: {
        ...result,
        ...(result.free_text && { free_text: result.free_text.map(inResult) }),
        ...(result.identifiers && { identifiers: result.identifiers.map(inResult) }),
        ...(result.kinds && { kinds: keysBy(result.kinds, inResult) }),
      },
    }),
  };
}

/** Returns the cases and the metadata under the names of this seed. */
export function rename(
  { canary, suites }: Cases,
  metadata: Metadata,
  seed: number,
): { cases: Cases; metadata: Metadata } {
  const dice = createDice(seed);
  const sign = wordLike('@@INJ', dice);
  const mark = `${sign}:<vector>:${wordLike('jni', dice)}@@`;
  const [before = '', after = ''] = canary.split('<vector>');
  const quoted = [before, after].map((part) => part.replace(/[.*+?^${}()|[\]\\]/g, '\\$&'));
  const marks = new RegExp(`${quoted[0]}([\\w.-]+)${quoted[1]}`, 'g');
  const words = namedWords(suites, marks);
  const fields = new Set([
    ...suites
      .flatMap(callsOf)
      .flatMap(({ args, result }) => [...fieldsIn(args), ...fieldsIn(result)]),
    ...suites
      .flatMap(({ tools }) => tools)
      .flatMap(({ parameters }) => {
        const { properties } = parameters;
        return isObject(properties) ? Object.keys(properties) : [];
      }),
  ]);
  const taken = new Set([...words, ...[...fields].map((name) => name.toLowerCase())]);
  const [word, field, vector] = [0, 1, 2].map(() => createNames(dice, taken));
  if (!word || !field || !vector) return { cases: { canary, suites }, metadata };
  const name: Rename = (text) => (fields.has(text) ? field(text) : text);
  const plain: Rename = (text) =>
    text.replace(WORD, (found) => (words.has(found.toLowerCase()) ? word(found) : found));
  const change: Rename = (text) => {
    let at = 0;
    let out = '';
    for (const found of text.matchAll(marks)) {
      out += plain(text.slice(at, found.index)) + mark.replace('<vector>', vector(found[1] ?? ''));
      at = found.index + found[0].length;
    }
    return out + plain(text.slice(at));
  };
  const calls = (list: readonly RecordedCall[]): RecordedCall[] =>
    list.map(({ tool, args, result }) => ({
      tool,
      args: renamedObject(args, name, change),
      result: renamed(result, name, change),
    }));
  const again = suites.map((suite) => ({
    ...suite,
    tools: suite.tools.map((tool) => renamedTool(tool, name, plain)),
    vectors: Object.fromEntries(
      Object.entries(suite.vectors).map(([id, text]) => [vector(id), change(text)]),
    ),
    tasks: suite.tasks.map((task) => ({
      ...task,
      prompt: change(task.prompt),
      answer: change(task.answer),
      calls: calls(task.calls),
    })),
    injections: suite.injections.map((task) => ({
      ...task,
      goal: change(task.goal),
      calls: calls(task.calls),
    })),
  }));
  const facts = Object.entries(metadata).map(([id, one]) => [id, renamedFacts(one, name)] as const);
  return { cases: { canary: mark, suites: again }, metadata: Object.fromEntries(facts) };
}
