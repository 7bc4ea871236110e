// Reads a data file of attacks in the format of AgentDojo: suites of tools, user tasks with their
// calls and answers, attack goals with their calls, and pairs of both. An answer contains a mark
// (`@@INJ:vector@@`) where an untrusted party can write. Each run fills the marks.
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
  /** JSON Schema of the object with all parameters. */
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
  /** Texts at the marks if there is no attack. */
  readonly vectors: Readonly<Record<string, string>>;
  readonly tasks: readonly UserTask[];
  readonly injections: readonly InjectionTask[];
  readonly pairs: readonly { readonly user: string; readonly injection: string }[];
}

export interface Cases {
  /** Format of a mark, with `<vector>` for its name. */
  readonly canary: string;
  readonly suites: readonly Suite[];
}

const VECTOR = '<vector>';
const CANARY = `@@INJ:${VECTOR}@@`;

const objectAt = (value: Json | undefined, name: string): JsonObject => {
  const member = getOwn(value, name);
  return isObject(member) ? member : {};
};

const readTool = (value: Json): SuiteTool => ({
  name: textAt(value, 'name'),
  description: textAt(value, 'description'),
  effect: textAt(value, 'effect') === 'read' ? 'read' : 'write',
  parameters: objectAt(value, 'parameters'),
});

/** Parses an answer that was stored as JSON text. */
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

/** Returns the first name that the suite uses and does not define, as a message. */
function problemIn({ name, tools, tasks, injections, pairs }: Suite): string | undefined {
  const toolNames = new Set(tools.map((tool) => tool.name));
  if (toolNames.size === 0 || toolNames.has(''))
    return `suite \`${name}\` has tools without a name, or none`;
  for (const { id, calls } of [...tasks, ...injections]) {
    const unknown = calls.find(({ tool }) => !toolNames.has(tool));
    if (unknown)
      return `\`${id}\` of suite \`${name}\` calls \`${unknown.tool}\`, which is not one of its tools`;
  }
  const lost = pairs.find(
    ({ user, injection }) =>
      !tasks.some(({ id }) => id === user) || !injections.some(({ id }) => id === injection),
  );
  return (
    lost &&
    `suite \`${name}\` pairs \`${lost.user}\` with \`${lost.injection}\`, and one of them is not found`
  );
}

/** Reads the data of a file. Fails if any part of it is unusable; then nothing runs. */
export function readCases(text: string): Outcome<Cases> {
  const parsed = parseJson(text);
  if (!parsed.ok) return fail('usage', `the data is not JSON: ${parsed.error.detail.message}`);
  const suites = Object.entries(objectAt(parsed.output, 'suites')).map(([name, suite]) =>
    readSuite(name, suite),
  );
  if (suites.length === 0) return fail('usage', 'the data has no `suites`');
  const problem = suites.map(problemIn).find((found) => found !== undefined);
  if (problem !== undefined) return fail('usage', problem);
  const canary = textAt(parsed.output, 'canary');
  return ok({ canary: canary.includes(VECTOR) ? canary : CANARY, suites });
}

/** Changes every text of a value and keeps the field names. */
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

/** Returns a function that replaces each mark with a text. */
export function createFiller(
  canary: string,
): (text: string, at: (vector: string) => string) => string {
  const [before = '', after = ''] = canary.split(VECTOR);
  const mark = new RegExp(`${escaped(before)}([\\w.-]+)${escaped(after)}`, 'g');
  return (text, at) => text.replace(mark, (_, vector: string) => at(vector));
}

/** Returns the mark of one vector in the canary's format. */
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

/** Returns a task or a goal for one run, with every mark replaced. */
export const filled = <T extends { readonly calls: readonly RecordedCall[] }>(
  task: T,
  fill: (text: string) => string,
): T => ({ ...task, calls: fillCalls(task.calls, fill) });
