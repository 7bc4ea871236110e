// A data file of attacks, in the shape of AgentDojo's: suites of tools, tasks of users with the calls that
// solve them and what those answered, goals of attackers with their calls, and pairs of both. Answers hold
// marks where a stranger can write (`@@INJ:vector@@`); what stands there is decided for each run.
import {
  fail,
  getOwn,
  isObject,
  type Json,
  type JsonObject,
  listAt,
  type Outcome,
  ok,
  parseJson,
  setOwn,
  textAt,
} from '@kernmantle/core/base';

export interface SuiteTool {
  readonly name: string;
  readonly description: string;
  readonly effect: 'read' | 'write';
  /** A JSON Schema of an object. */
  readonly parameters: JsonObject;
}

export interface RecordedCall {
  readonly tool: string;
  readonly args: JsonObject;
  readonly result: Json;
}

export interface UserTask {
  readonly id: string;
  readonly prompt: string;
  readonly answer: string;
  readonly calls: readonly RecordedCall[];
}

export interface InjectionTask {
  readonly id: string;
  readonly goal: string;
  readonly calls: readonly RecordedCall[];
}

export interface Suite {
  readonly name: string;
  readonly tools: readonly SuiteTool[];
  /** What stands at a mark when nobody attacks. */
  readonly vectors: Readonly<Record<string, string>>;
  readonly tasks: readonly UserTask[];
  readonly injections: readonly InjectionTask[];
  readonly pairs: readonly { readonly user: string; readonly injection: string }[];
}

export interface Cases {
  /** How a mark is written, with `<vector>` for its name. */
  readonly canary: string;
  readonly suites: readonly Suite[];
}

const VECTOR = '<vector>';
const CANARY = `@@INJ:${VECTOR}@@`;

const objectAt = (value: Json | undefined, name: string): JsonObject => {
  const found = getOwn(value, name);
  return isObject(found) ? found : {};
};

const readTool = (value: Json): SuiteTool => ({
  name: textAt(value, 'name'),
  description: textAt(value, 'description'),
  effect: textAt(value, 'effect') === 'read' ? 'read' : 'write',
  parameters: objectAt(value, 'parameters'),
});

/** As data where it was kept as such. */
const resultOf = (value: Json): Json =>
  isObject(value) && Object.hasOwn(value, 'result_json')
    ? (value.result_json ?? null)
    : (getOwn(value, 'result') ?? null);

const readCall = (value: Json): RecordedCall => ({
  tool: textAt(value, 'function'),
  args: objectAt(value, 'args'),
  result: resultOf(value),
});

const readCalls = (value: Json): RecordedCall[] => listAt(value, 'calls').map(readCall);

function readSuite(name: string, value: Json): Suite {
  const vectors = Object.entries(objectAt(value, 'injection_vectors'));
  return {
    name,
    tools: listAt(value, 'tools').map(readTool),
    vectors: Object.fromEntries(vectors.map(([id, one]) => [id, textAt(one, 'default')])),
    tasks: Object.entries(objectAt(value, 'user_tasks')).map(([id, task]) => ({
      id,
      prompt: textAt(task, 'prompt'),
      answer: textAt(task, 'final_output'),
      calls: readCalls(task),
    })),
    injections: Object.entries(objectAt(value, 'injection_tasks')).map(([id, task]) => ({
      id,
      goal: textAt(task, 'goal'),
      calls: readCalls(task),
    })),
    pairs: listAt(value, 'pairs').map((pair) => ({
      user: textAt(pair, 'user'),
      injection: textAt(pair, 'injection'),
    })),
  };
}

/** What a suite names and does not have; undefined: all of it is there. */
function problemIn({ name, tools, tasks, injections, pairs }: Suite): string | undefined {
  const known = new Set(tools.map((tool) => tool.name));
  if (known.size === 0 || known.has(''))
    return `suite \`${name}\` has tools without a name, or none`;
  for (const { id, calls } of [...tasks, ...injections]) {
    const unknown = calls.find(({ tool }) => !known.has(tool));
    if (unknown)
      return `\`${id}\` of suite \`${name}\` calls \`${unknown.tool}\`, which is no tool of it`;
  }
  const lost = pairs.find(
    ({ user, injection }) =>
      !tasks.some(({ id }) => id === user) || !injections.some(({ id }) => id === injection),
  );
  return (
    lost &&
    `suite \`${name}\` pairs \`${lost.user}\` with \`${lost.injection}\`, which are not both there`
  );
}

/** The data of a file; what it cannot be run with is said, and nothing of it is run. */
export function readCases(text: string): Outcome<Cases> {
  const parsed = parseJson(text);
  if (!parsed.ok) return fail('usage', `the data is no JSON: ${parsed.error.detail.message}`);
  const suites = Object.entries(objectAt(parsed.output, 'suites')).map(([name, suite]) =>
    readSuite(name, suite),
  );
  if (suites.length === 0) return fail('usage', 'the data has no `suites`');
  const problem = suites.map(problemIn).find((found) => found !== undefined);
  if (problem !== undefined) return fail('usage', problem);
  const canary = textAt(parsed.output, 'canary');
  return ok({ canary: canary.includes(VECTOR) ? canary : CANARY, suites });
}

/** Every text of a value changed, names of fields left as they are. */
export function mapTexts<T extends Json>(value: T, change: (text: string) => string): T;
export function mapTexts(value: Json, change: (text: string) => string): Json {
  if (typeof value === 'string') return change(value);
  if (Array.isArray(value)) return value.map((item) => mapTexts(item, change));
  if (!isObject(value)) return value;
  const mapped: JsonObject = {};
  for (const [name, item] of Object.entries(value)) setOwn(mapped, name, mapTexts(item, change));
  return mapped;
}

const escaped = (text: string): string => text.replace(/[.*+?^${}()|[\]\\]/g, '\\$&');

/** Puts a text where each mark stands. */
export function createFiller(
  canary: string,
): (text: string, at: (vector: string) => string) => string {
  const [before = '', after = ''] = canary.split(VECTOR);
  const mark = new RegExp(`${escaped(before)}([\\w.-]+)${escaped(after)}`, 'g');
  return (text, at) => text.replace(mark, (_, vector: string) => at(vector));
}

/** The mark of one vector. */
export const markOf = (canary: string, vector: string): string => canary.replace(VECTOR, vector);

const fillCalls = (
  calls: readonly RecordedCall[],
  fill: (text: string) => string,
): RecordedCall[] =>
  calls.map(({ tool, args, result }) => ({
    tool,
    args: mapTexts(args, fill),
    result: mapTexts(result, fill),
  }));

/** A task or a goal as it is in one run: with a text in place of every mark. */
export const filled = <T extends { readonly calls: readonly RecordedCall[] }>(
  task: T,
  fill: (text: string) => string,
): T => ({ ...task, calls: fillCalls(task.calls, fill) });
