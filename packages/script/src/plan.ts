// Reads a plan: a script that may contain only values, fields, conditions, loops over lists, and calls of
// tools with constant ids. Everything else is refused, so a tool result can never add a step. Nothing is
// run. INVARIANT: the sources that are reported for a value always include all of its real sources.
import { type Json, type JsonObject, setOwn } from '@kernmantle/core/base';
import { locationOf } from './problem.ts';
import { PROVIDED } from './run/names.ts';
import {
  type ActionExpression,
  givesValue,
  mayLeave,
  type NodeOf,
  type TemplatePart,
  valuesOf,
} from './syntax/ast.ts';
import { parseScript } from './syntax/parse.ts';
import { hintOfName } from './syntax/unbound.ts';

/** A source of a value: the result of a step with the fields that were read, or an input variable. */
type PlanSource =
  | { readonly step: number; readonly fields: readonly string[] }
  | { readonly input: string };

interface PlanParameter {
  /** The value, if the text contains it as a constant. */
  readonly literal?: Json;
  readonly from: readonly PlanSource[];
}

interface PlanStep {
  /** Number of the step, from 1, in the order of the text. */
  readonly number: number;
  readonly tool: string;
  readonly line: number;
  readonly parameters: ReadonlyMap<string, PlanParameter>;
  /** Sources that decide whether the step runs, and how often. */
  readonly under: readonly PlanSource[];
}

interface PlanProblem {
  readonly line: number;
  readonly column: number;
  readonly message: string;
}

interface PlanReading {
  readonly problems: readonly PlanProblem[];
  readonly steps: readonly PlanStep[];
  /** Output names of each `return`; `undefined` if the names are not constant. */
  readonly returns: readonly (readonly string[] | undefined)[];
}

const MAX_CHARACTERS = 32_000;
const MAX_STEPS = 200;
const MAX_PROBLEMS = 20;
const ALLOWED: ReadonlySet<string> = new Set(['tool', 'now', 'input']);
/** Members with metadata, which a plan may not read. */
const HIDDEN: ReadonlySet<string> = new Set(['mx', 'ctx', 'keep', 'keepStructured']);

type Sources = readonly PlanSource[];

interface Walk {
  readonly text: string;
  readonly problems: PlanProblem[];
  readonly steps: PlanStep[];
  readonly returns: (readonly string[] | undefined)[];
  /** Variables in scope with their sources. */
  readonly names: Map<string, PlanSource[]>;
  readonly under: Sources;
  /** Sources of earlier conditions that could have ended the plan. Every later step depends on them. */
  readonly passed: PlanSource[];
  readonly isText: boolean;
  /** True inside of a value. There the result of a `when` arm ends the block or the round. */
  readonly isValue: boolean;
}

function refuse({ problems, text }: Walk, at: number, message: string): Sources {
  const { line, column } = locationOf({ name: '', text }, at);
  problems.push({ line, column, message });
  return [];
}

const inside = (walk: Walk): Walk => ({ ...walk, names: new Map(walk.names) });
const under = (walk: Walk, more: Sources): Walk =>
  more.length === 0 ? walk : { ...walk, under: [...walk.under, ...more] };

function read(node: ActionExpression | undefined, walk: Walk): Sources {
  if (!node) return [];
  const readers: Readonly<Record<string, (node: never, walk: Walk) => Sources>> = READ;
  const reader = Object.hasOwn(readers, node.kind) ? readers[node.kind] : undefined;
  // The cast is safe: `READ` has for each kind a reader of exactly that kind of node.
  if (reader) return reader(node as never, walk);
  return refuse(
    walk,
    node.at,
    `${WORDS[node.kind] ?? `\`${node.kind}\``} is not allowed in a plan`,
  );
}
const readAll = (nodes: readonly (ActionExpression | undefined)[], walk: Walk): Sources =>
  nodes.flatMap((node) => read(node, walk));

/** Names of the refused constructs, as messages show them. */
const WORDS: Readonly<Record<string, string>> = {
  command: 'a command',
  code: 'a block of code',
  file: 'a file',
  run: '`run`',
  'run-value': '`run`',
  model: 'a prompt to a model',
  exe: 'a function definition',
  effect: 'writing or printing',
  pipeline: 'a pipeline',
  with: '`with`',
  import: 'an import',
  guard: 'a guard',
  hook: 'a hook',
  policy: 'a policy',
  text: 'text outside of quotes',
};

/** Returns the value of a constant expression; `undefined` if a part is known only at run time. */
function literalOf(node: ActionExpression): Json | undefined {
  if (node.kind === 'literal') return node.value;
  if (node.kind === 'unary' && node.operator === '-') {
    const value = literalOf(node.value);
    return typeof value === 'number' ? -value : undefined;
  }
  // A template without references is a plain text.
  if (node.kind === 'template') {
    return node.parts.every((part) => typeof part === 'string') ? node.parts.join('') : undefined;
  }
  if (node.kind === 'array') return listOf(node);
  return node.kind === 'object' ? objectOf(node) : undefined;
}

function listOf({ items }: NodeOf<'array'>): Json | undefined {
  const values = items.map(({ value, isOptional, isSpread }) =>
    isOptional || isSpread ? undefined : literalOf(value),
  );
  const constants = values.filter((value) => value !== undefined);
  return constants.length === values.length ? constants : undefined;
}

function objectOf({ entries }: NodeOf<'object'>): Json | undefined {
  const result: JsonObject = {};
  for (const entry of entries) {
    const isPlain = entry.kind === 'pair' && !entry.isOptional;
    const value = isPlain ? literalOf(entry.value) : undefined;
    if (!isPlain || value === undefined) return undefined;
    setOwn(result, entry.key, value);
  }
  return result;
}

function parametersOf(node: ActionExpression | undefined, walk: Walk): PlanStep['parameters'] {
  const result = new Map<string, PlanParameter>();
  if (node === undefined) return result;
  if (node.kind !== 'object') {
    refuse(walk, node.at, 'the parameters of a step must be an object: `{ name: value }`');
    return result;
  }
  for (const entry of node.entries) {
    if (entry.kind === 'spread') {
      refuse(walk, entry.value.at, '`...` is not allowed in parameters; write each name');
      continue;
    }
    const literal = literalOf(entry.value);
    const from = read(entry.value, walk);
    result.set(entry.key, { from, ...(literal !== undefined && { literal }) });
  }
  return result;
}

function readStep(node: NodeOf<'reference'>, walk: Walk): Sources {
  const [call] = node.steps;
  const [id, values, more] = call?.kind === 'call' ? call.arguments : [];
  const tool = id && literalOf(id);
  if (typeof tool !== 'string') {
    const form = '`@tool("id", { name: value })`';
    return refuse(walk, node.at, `a step must name its tool in quotes: ${form}`);
  }
  if (more) refuse(walk, more.at, '`@tool` takes only an id and parameters');
  const parameters = parametersOf(values, walk);
  const number = walk.steps.length + 1;
  if (number > MAX_STEPS) return refuse(walk, node.at, `a plan has at most ${MAX_STEPS} steps`);
  const { line } = locationOf({ name: '', text: walk.text }, node.at);
  const around = [...walk.under, ...walk.passed];
  walk.steps.push({ number, tool, line, parameters, under: around });
  return [{ step: number, fields: [] }];
}

function readName(node: NodeOf<'reference'>, walk: Walk): Sources {
  const { name, at } = node;
  const sources = walk.names.get(name);
  if (sources) return sources;
  if (name === 'tool') return readStep(node, walk);
  if (ALLOWED.has(name)) return [];
  if (PROVIDED.has(name)) return refuse(walk, at, `\`@${name}\` is not allowed in a plan`);
  // In a text, `@example` of `ann@example.com` is not a reference.
  if (walk.isText) return [];
  const hint = hintOfName(name, [...walk.names.keys()]);
  return refuse(walk, at, `\`@${name}\` is not defined${hint ? `; ${hint}` : ''}`);
}

const withField = (from: Sources, field: string): Sources =>
  from.map((one) => ('step' in one ? { ...one, fields: [...one.fields, field] } : one));

type ReferenceStep = NodeOf<'reference'>['steps'][number];

function readPart(step: ReferenceStep, from: Sources, walk: Walk): Sources {
  if (step.kind === 'field') {
    if (HIDDEN.has(step.name)) refuse(walk, step.at, `\`.${step.name}\` is not allowed in a plan`);
    return withField(from, step.name);
  }
  if (step.kind === 'index') {
    const name = literalOf(step.index);
    if (typeof name === 'string') return withField(from, name);
    return [...from, ...read(step.index, walk)];
  }
  if (step.kind === 'slice') return [...from, ...readAll([step.from, step.to], walk)];
  return step.kind === 'call' ? [...from, ...readAll(step.arguments, walk)] : from;
}

const readReference = (node: NodeOf<'reference'>, walk: Walk): Sources => {
  const inner = walk.isText ? { ...walk, isText: false } : walk;
  const isStep = node.name === 'tool' && !walk.names.has('tool');
  return (isStep ? node.steps.slice(1) : node.steps).reduce<Sources>(
    (from, step) => readPart(step, from, inner),
    readName(node, walk),
  );
};

function readText(part: TemplatePart, walk: Walk): Sources {
  if (typeof part === 'string') return [];
  if (part.kind !== 'insert') {
    return refuse(walk, part.at, 'a text of a plan may contain only names');
  }
  if (part.stages.length > 0) refuse(walk, part.at, 'a pipeline is not allowed in a plan');
  const { mode } = part;
  const value = readReference(part.value, { ...walk, isText: true });
  if (mode.kind === 'default') return [...value, ...read(mode.value, under(walk, value))];
  if (mode.kind !== 'fragment') return value;
  return [...value, ...mode.parts.flatMap((one) => readText(one, under(walk, value)))];
}

/** Returns the scope of code behind a condition. If a branch can leave, later steps depend on it too. */
function conditionalScope(
  walk: Walk,
  conditions: Sources,
  branches: readonly ActionExpression[],
  leaves = branches.some((branch) => mayLeave(branch, walk.isValue)),
): Walk {
  if (leaves) walk.passed.push(...conditions);
  return inside(under(walk, conditions));
}

/** Reads a `when`. `isLine` is true if the `when` is a statement of its own. */
function readWhen({ subject, items }: NodeOf<'when'>, outer: Walk, isLine = false): Sources {
  const walk = inside(outer);
  let conditions = read(subject, walk);
  const sources: PlanSource[] = [];
  for (const item of items) {
    if (item.kind !== 'arm') {
      read(item, walk);
      continue;
    }
    const { condition, action } = item;
    conditions = [...conditions, ...readAll(valuesOf(condition), walk)];
    const about = condition.kind === 'not' ? condition.pattern : condition;
    if (about.kind === 'denied') refuse(walk, item.at, '`denied` is not allowed in a plan');
    const leaves = (isLine && walk.isValue && givesValue(action)) || mayLeave(action, walk.isValue);
    sources.push(...read(action, conditionalScope(walk, conditions, [action], leaves)));
  }
  return [...sources, ...conditions];
}

function readIf({ condition, then, else: other }: NodeOf<'if'>, walk: Walk): Sources {
  const conditions = read(condition, walk);
  const round = conditionalScope(walk, conditions, other ? [then, other] : [then]);
  // `else if` is an `if` statement, not a value.
  const rest = other?.kind === 'if' ? readIf(other, round) : read(other, round);
  return [...read(then, round), ...rest, ...conditions];
}

function readFor(node: NodeOf<'for'>, walk: Walk): Sources {
  const { parallel, batch, bind, collection, filter, body } = node;
  if (parallel)
    refuse(walk, node.at, 'steps of a plan run one after the other; leave out `parallel`');
  if (batch) refuse(walk, node.at, 'a pipeline is not allowed in a plan');
  const list = read(collection, walk);
  const round = conditionalScope(walk, list, [body]);
  for (const name of [bind.key ?? `${bind.name}_key`, bind.name])
    bindName(round, name, node.at, list);
  const chosen = read(filter, round);
  return [...read(body, conditionalScope(round, chosen, [body])), ...list, ...chosen];
}

function bindName(walk: Walk, name: string, at: number, from: Sources): void {
  if (PROVIDED.has(name)) refuse(walk, at, `\`@${name}\` is built in; use another name`);
  walk.names.set(name, [...from]);
}

function readAssignment(node: NodeOf<'var' | 'let'>, walk: Walk): Sources {
  if (node.labels.length > 0) refuse(walk, node.at, 'labels are not allowed in a plan');
  bindName(walk, node.name, node.at, read(node.value, { ...walk, isValue: true }));
  return [];
}

function readAugment(node: NodeOf<'augment'>, walk: Walk): Sources {
  const before = walk.names.get(node.name);
  if (!before) return refuse(walk, node.at, `\`@${node.name}\` is not defined`);
  // The list is changed in place, so that code outside of the branch also sees the added sources.
  before.push(...read(node.value, { ...walk, isValue: true }), ...walk.under);
  return [];
}

function readReturn({ isOutputs, value, labels, at }: NodeOf<'return'>, walk: Walk): Sources {
  if (labels) refuse(walk, at, 'labels are not allowed in a plan');
  if (isOutputs) {
    const entries = value?.kind === 'object' ? value.entries : undefined;
    const isPlain = entries?.every((entry) => entry.kind === 'pair');
    const names = entries?.flatMap((entry) => (entry.kind === 'pair' ? [entry.key] : []));
    walk.returns.push(isPlain ? names : undefined);
  }
  return read(value, { ...walk, isValue: true });
}

function readBinary({ operator, left, right }: NodeOf<'binary'>, walk: Walk): Sources {
  const first = read(left, walk);
  const isChoice = operator === '&&' || operator === '||' || operator === '??';
  return [...first, ...read(right, isChoice ? under(walk, first) : walk)];
}

type PlanNode = NodeOf<
  | ('var' | 'let' | 'augment' | 'call' | 'flow' | 'return' | 'leave' | 'block' | 'when' | 'if')
  | ('for' | 'literal' | 'template' | 'array' | 'object' | 'reference' | 'unary' | 'binary')
  | ('ternary' | 'pattern')
>;
type NodeReader<K extends PlanNode['kind']> = (node: NodeOf<K>, walk: Walk) => Sources;

const READ: { readonly [K in PlanNode['kind']]: NodeReader<K> } = {
  var: readAssignment,
  let: readAssignment,
  augment: readAugment,
  call: ({ value }, walk) => read(value, walk),
  flow: ({ value }, walk) => {
    if (value.kind === 'when') return readWhen(value, walk, true);
    if (value.kind === 'if') return readIf(value, walk);
    return value.kind === 'for' ? readFor(value, walk) : read(value, walk);
  },
  return: readReturn,
  leave: ({ word, value, at }, walk) =>
    word === 'retry' ? refuse(walk, at, '`retry` is not allowed in a plan') : read(value, walk),
  block: ({ body }, walk) => readAll(body, inside(walk)),
  when: (node, walk) => readWhen(node, { ...walk, isValue: true }),
  if: (node, walk) => readIf(node, { ...walk, isValue: true }),
  for: (node, walk) => readFor(node, { ...walk, isValue: true }),
  literal: () => [],
  pattern: () => [],
  template: ({ parts }, walk) => parts.flatMap((part) => readText(part, walk)),
  array: ({ items }, walk) => items.flatMap(({ value }) => read(value, walk)),
  object: ({ entries }, walk) => entries.flatMap(({ value }) => read(value, walk)),
  reference: readReference,
  unary: ({ value }, walk) => read(value, walk),
  binary: readBinary,
  ternary({ condition, then, else: other }, walk) {
    const conditions = read(condition, walk);
    return [...readAll([then, other], under(walk, conditions)), ...conditions];
  },
};

/** Reads a plan. `inputs` has the names of its input variables. It never throws: problems are returned. */
export function readPlan(text: string, inputs: readonly string[]): PlanReading {
  const problems: PlanProblem[] = [];
  const none = { problems, steps: [], returns: [] };
  if (text.length > MAX_CHARACTERS) {
    const message = `a plan has at most ${MAX_CHARACTERS} characters, this one has ${text.length}`;
    return { ...none, problems: [{ line: 1, column: 1, message }] };
  }
  const { script, problems: syntaxProblems } = parseScript(text, { mode: 'strict', file: 'plan' });
  if (!script) {
    const list = syntaxProblems.slice(0, MAX_PROBLEMS).map(({ at, message, hint }) => {
      const { line, column } = locationOf({ name: '', text }, at);
      return { line, column, message: hint ? `${message}; ${hint}` : message };
    });
    return { ...none, problems: list };
  }
  const names: Walk['names'] = new Map(inputs.map((name) => [name, [{ input: name }]]));
  const walk: Walk = { text, ...none, names, under: [], passed: [], isText: false, isValue: false };
  if (script.frontMatter !== undefined) refuse(walk, 0, 'front matter is not allowed in a plan');
  for (const node of script.body) {
    if (node.kind === 'text') refuse(walk, node.at, `${WORDS['text']} is not allowed in a plan`);
    else read(node, walk);
  }
  return { problems: problems.slice(0, MAX_PROBLEMS), steps: walk.steps, returns: walk.returns };
}
