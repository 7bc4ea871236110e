// Writes the request for a plan. INVARIANT: the request never contains untrusted text. Inputs and messages that can
// be untrusted appear as names and types. Earlier steps appear as ids of tools, numbers and codes of kernmantle,
// never with a result, a file or the message of an error.
import { getOwn, type Json, type JsonObject, plainText } from '../../base/index.ts';
import {
  carries,
  type Descriptor,
  describe,
  EMPTY,
  makeValue,
  mergeDescriptors,
  type Value,
} from '../../flow/index.ts';
import type { Directive } from '../../items/index.ts';
import { type DataOf, fileValue } from '../../journal/index.ts';
import { parameterWords, signatureOf, type ToolSignature } from '../../kernel/index.ts';
import { unpackMarks } from '../thread/conversation.ts';
import { permittedTools } from '../thread/permitted-tools.ts';
import type { PlanReading } from '../thread/ports.ts';
import { shapeOf } from '../thread/references.ts';
import type { DirectiveTalk, RightsHolder, Thread } from '../thread/thread.ts';

export type PlanNote = DataOf<'plan'>;

/** A step of any plan that returned a result. */
export interface DoneStep {
  readonly tool: string;
  readonly isUntrusted: boolean;
}

export interface PlanGround {
  /** The tools that the prompt lists, by id. */
  readonly tools: ReadonlyMap<string, ToolSignature>;
  readonly marks: Descriptor;
  /** True if the inputs and the message can be untrusted. Neither is shown then. */
  readonly isHidden: boolean;
  readonly message: string;
  /** Files of the person, by the name of their variable. No plan shows their content. */
  readonly files: ReadonlyMap<string, Value>;
}

const attachedValue = ({ text, file, marks }: DataOf<'user_message'>): Value =>
  makeValue(file ? fileValue(file) : text, { descriptor: unpackMarks(marks) });

const SIGNED: ReadonlySet<string> = new Set(['signed', 'bundle']);

/** Returns the trusted data for plans from the opening, so a resumed thread gets the same data. */
export function groundOf({
  ports: { library },
  place,
  talk: { opening },
}: DirectiveTalk): PlanGround {
  const result = opening.find((event) => event.type === 'tool_result');
  const marks = unpackMarks(result?.data.marks);
  const listed = getOwn(result?.data.content ?? null, 'tools');
  const ids = (Array.isArray(listed) ? listed : []).map((one) => plainText(getOwn(one, 'id')));
  const signatures = ids.flatMap((id) => {
    const found = library.find('tool', id);
    return (found.ok && signatureOf(library, found.output)) || [];
  });
  const isHidden = carries(marks, 'untrusted');
  // The text of a signed directive is its author's, whatever inputs it has.
  const isVouchedFor = SIGNED.has(place.item.signature.state);
  const messages = opening.flatMap((event) => (event.type === 'user_message' ? [event.data] : []));
  const [, message] = messages.filter(({ attached }) => attached === undefined);
  const files = messages.filter(({ attached }) => attached !== undefined).map(attachedValue);
  return {
    tools: new Map(signatures.map((one) => [one.id, one])),
    marks: isHidden && isVouchedFor ? EMPTY : marks,
    isHidden,
    message: message?.text ?? '',
    files: new Map(files.map((file, at) => [`file${at + 1}`, file])),
  };
}

/** Returns the tools that a plan can call: the listed ones, and permitted ones that only the plan names. */
export function toolsFor(
  thread: RightsHolder,
  { tools }: PlanGround,
  { steps }: PlanReading,
): PlanGround['tools'] {
  const others = new Set(steps.map(({ tool }) => tool).filter((id) => !tools.has(id)));
  if (others.size === 0) return tools;
  // The token of the thread has the rights, narrowed by those of its parents.
  const permitted = permittedTools(thread.ports, thread.place.directive, thread, others);
  return new Map([...tools, ...permitted.map((one) => [one.id, one] as const)]);
}

const FROM_MODEL = describe({ taint: ['src:llm'] });

export const planMarks = ({ marks }: PlanGround): Descriptor => mergeDescriptors(marks, FROM_MODEL);

export const variablesOf = (
  { directive, inputs }: Pick<Thread['place'], 'directive' | 'inputs'>,
  { message, files }: PlanGround,
  done: readonly DoneStep[],
): string[] => [
  ...new Set([
    ...directive.inputs.map(({ name }) => name),
    ...Object.keys(inputs),
    ...(message === '' ? [] : ['message']),
    ...files.keys(),
    ...done.map((_, at) => `done${at + 1}`),
  ]),
];

const MAX_DESCRIPTION = 400;
const SHOWN_PARTS = ['name', 'description', 'process', 'context', 'success_criteria', 'opaque'];

/** Returns the directive as it is written. Inputs are variables, and none is filled in. */
function directiveWords(directive: Directive): string {
  const whole = JSON.parse(JSON.stringify(directive)) as JsonObject;
  const parts = SHOWN_PARTS.map((part): [string, Json] => [part, whole[part] ?? null]);
  const isThere = ([, part]: [string, Json]): boolean =>
    part !== null && !(Array.isArray(part) && part.length === 0);
  return JSON.stringify(Object.fromEntries(parts.filter(isThere)), null, 1);
}

function inputWords({ place }: Pick<Thread, 'place'>, { isHidden }: PlanGround): string[] {
  const { directive, inputs } = place;
  return directive.inputs.map(({ name, type, description }) => {
    const value = getOwn(inputs, name);
    const preview = value === undefined ? 'not given: null' : JSON.stringify(value);
    const words = description === '' ? '' : ` - ${description}`;
    return `@${name} (${type})${isHidden ? ', not shown' : `: ${preview}`}${words}`;
  });
}

/** Returns the schema of a tool's result, or the names of fields that its file declares. */
function resultWords({ library }: Thread['ports'], id: string): string {
  const chain = library.chain(id);
  const [tool] = chain.ok ? chain.output.links.flatMap((link) => link.tool ?? []) : [];
  const schema = tool?.output_schema;
  if (schema) return ` -> ${JSON.stringify(schema)}`;
  const facts: unknown[] = Object.values(tool?.result ?? {});
  const names = facts.flatMap((fact) => {
    if (Array.isArray(fact)) return fact.map(String);
    return typeof fact === 'object' && fact !== null ? Object.keys(fact) : [];
  });
  return names.length === 0 ? '' : ` -> has ${[...new Set(names)].join(', ')}`;
}

const toolWords = (
  thread: Pick<Thread, 'ports'>,
  { id, description, schema }: ToolSignature,
): string => {
  const words = description.replace(/\s+/g, ' ').trim().slice(0, MAX_DESCRIPTION);
  return `${id} { ${parameterWords(schema)} }${resultWords(thread.ports, id)}: ${words}`;
};

const outputWords = ({ outputs }: Directive): string[] =>
  outputs.map(({ name, type, required, description, enum: words }) => {
    const choice = words ? ` (one of ${words.join(', ')})` : '';
    return `${name} (${type}${required ? ', required' : ''})${choice}: ${description}`;
  });

/** Returns the outcome of the plan before this one, with numbers, ids and codes. */
function pastWords(done: readonly DoneStep[], after: PlanNote['after']): string[] {
  const steps = done.map(
    ({ tool }, at) => `step ${at + 1}, \`${tool}\`: done, its result is @done${at + 1}`,
  );
  if (!after) return steps;
  const { code, tool, step } = after;
  const where = tool === undefined ? 'the plan itself' : `step ${step ?? ''}, \`${tool}\``;
  return [...steps, `${where}: failed with ${code}`];
}

const section = (title: string, lines: readonly string[]): string[] =>
  lines.length === 0 ? [] : [`# ${title}`, ...lines.map((line) => `- ${line}`), ''];

export function planRequest(
  thread: Pick<Thread, 'ports' | 'place'>,
  ground: PlanGround,
  done: readonly DoneStep[],
  after: PlanNote['after'],
): string {
  const { directive } = thread.place;
  const { tools, message, isHidden, files } = ground;
  const messageLines = message === '' ? [] : [isHidden ? '@message (text), not shown' : message];
  const past = pastWords(done, after);
  return [
    `# Directive\n${directiveWords(directive)}\n`,
    ...section('Inputs', inputWords(thread, ground)),
    ...section('Message of the person', messageLines),
    ...section(
      'Files',
      [...files].map(([name, { data }]) => `@${name}, not shown: ${JSON.stringify(shapeOf(data))}`),
    ),
    ...section('Outputs', outputWords(directive)),
    ...section(
      'Tools',
      [...tools.values()].map((tool) => toolWords(thread, tool)),
    ),
    ...section('The plan before this one', past),
    past.length === 0 ? 'Write the plan.' : 'Write a new plan for what is left to do.',
  ].join('\n');
}

export const repairRequest = (problems: readonly string[]): string =>
  [
    '[harness] this plan cannot be used:',
    ...problems.map((problem) => `- ${problem}`),
    'Write the whole plan again.',
  ].join('\n');

const FENCE = /^ {0,3}(`{3,}|~{3,})[^\n]*\n([\s\S]*?)\n? {0,3}\1[ \t]*$/gm;

/** Returns the plan in a reply of the model: the only fenced block, or the whole text. */
export function planIn(text: string): string {
  const blocks = Array.from(text.matchAll(FENCE), ([, , body = '']) => body);
  const [only] = blocks;
  return (blocks.length === 1 && only !== undefined ? only : text).trim();
}
