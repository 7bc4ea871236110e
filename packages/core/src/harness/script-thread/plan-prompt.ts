// What a model is told before it writes a plan. INVARIANT: everything here is trusted. Inputs and words
// that a stranger may have had a hand in are names and types; of steps that were done before there are
// ids of tools, numbers and known codes. No result, no file and no message of an error is ever part of it.
import { getOwn, type Json, type JsonObject, plainText } from '../../base/index.ts';
import { carries, type Descriptor, describe, EMPTY, mergeDescriptors } from '../../flow/index.ts';
import type { Directive } from '../../items/index.ts';
import type { DataOf } from '../../journal/index.ts';
import { parameterWords, signatureOf, type ToolSignature } from '../../kernel/index.ts';
import { unpackMarks } from '../thread/conversation.ts';
import { permittedTools } from '../thread/permitted-tools.ts';
import type { PlanReading } from '../thread/ports.ts';
import type { DirectiveTalk, RightsHolder, Thread } from '../thread/thread.ts';

export type PlanNote = DataOf<'plan'>;

/** A step that gave a result, in whichever plan. */
export interface DoneStep {
  readonly tool: string;
  readonly isUntrusted: boolean;
}

export interface PlanGround {
  /** The tools that the prompt lists, by id. */
  readonly tools: ReadonlyMap<string, ToolSignature>;
  readonly marks: Descriptor;
  /** Strangers may have had a hand in the inputs and the message: neither is shown. */
  readonly isHidden: boolean;
  readonly message: string;
}

const SIGNED: ReadonlySet<string> = new Set(['signed', 'bundle']);

/** As the beginning of the journal has it: the same when the thread goes on. */
export function groundOf({
  ports: { library },
  place,
  talk: { opening },
}: DirectiveTalk): PlanGround {
  const shown = opening.find((event) => event.type === 'tool_result');
  const given = unpackMarks(shown?.data.marks);
  const told = getOwn(shown?.data.content ?? null, 'tools');
  const ids = (Array.isArray(told) ? told : []).map((one) => plainText(getOwn(one, 'id')));
  const signatures = ids.flatMap((id) => {
    const found = library.find('tool', id);
    return (found.ok && signatureOf(library, found.output)) || [];
  });
  const isHidden = carries(given, 'untrusted');
  // The words of a directive are its author's, whatever it was started with, where somebody signed them.
  const isVouchedFor = SIGNED.has(place.item.signature.state);
  const [, message] = opening.filter((event) => event.type === 'user_message');
  return {
    tools: new Map(signatures.map((one) => [one.id, one])),
    marks: isHidden && isVouchedFor ? EMPTY : given,
    isHidden,
    message: message?.data.text ?? '',
  };
}

/** The tools that a plan may call: those it was told of, and whatever else it names and the thread may use. */
export function toolsFor(
  thread: RightsHolder,
  { tools }: PlanGround,
  { steps }: PlanReading,
): PlanGround['tools'] {
  const others = new Set(steps.map(({ tool }) => tool).filter((id) => !tools.has(id)));
  if (others.size === 0) return tools;
  // The rights of a thread are in its own token, which holds those of its parents.
  const found = permittedTools(thread.ports, thread.place.directive, thread, others);
  return new Map([...tools, ...found.map((one) => [one.id, one] as const)]);
}

const FROM_MODEL = describe({ taint: ['src:llm'] });

export const planMarks = ({ marks }: PlanGround): Descriptor => mergeDescriptors(marks, FROM_MODEL);

export const variablesOf = (
  { directive, inputs }: Pick<Thread['place'], 'directive' | 'inputs'>,
  { message }: PlanGround,
  done: readonly DoneStep[],
): string[] => [
  ...new Set([
    ...directive.inputs.map(({ name }) => name),
    ...Object.keys(inputs),
    ...(message === '' ? [] : ['message']),
    ...done.map((_, at) => `done${at + 1}`),
  ]),
];

const MAX_DESCRIPTION = 400;
const SHOWN_PARTS = ['name', 'description', 'process', 'context', 'success_criteria', 'opaque'];

/** As it is written: inputs are variables, and nothing is put in. */
function directiveWords(directive: Directive): string {
  const whole = JSON.parse(JSON.stringify(directive)) as JsonObject;
  const shown = SHOWN_PARTS.map((part): [string, Json] => [part, whole[part] ?? null]);
  const isThere = ([, part]: [string, Json]): boolean =>
    part !== null && !(Array.isArray(part) && part.length === 0);
  return JSON.stringify(Object.fromEntries(shown.filter(isThere)), null, 1);
}

function inputWords({ place }: Pick<Thread, 'place'>, { isHidden }: PlanGround): string[] {
  const { directive, inputs } = place;
  return directive.inputs.map(({ name, type, description }) => {
    const value = getOwn(inputs, name);
    const shown = value === undefined ? 'not given: null' : JSON.stringify(value);
    const words = description === '' ? '' : ` - ${description}`;
    return `@${name} (${type})${isHidden ? ', not shown' : `: ${shown}`}${words}`;
  });
}

/** Names of fields that a tool's file tells of its results. */
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

/** What became of the plan before: numbers, ids and codes. */
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
  const { tools, message, isHidden } = ground;
  const said = message === '' ? [] : [isHidden ? '@message (text), not shown' : message];
  const past = pastWords(done, after);
  return [
    `# Directive\n${directiveWords(directive)}\n`,
    ...section('Inputs', inputWords(thread, ground)),
    ...section('What the person says besides', said),
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

/** The plan in what the model said: the one fenced block, or all of it. */
export function planIn(text: string): string {
  const blocks = Array.from(text.matchAll(FENCE), ([, , body = '']) => body);
  const [only] = blocks;
  return (blocks.length === 1 && only !== undefined ? only : text).trim();
}
